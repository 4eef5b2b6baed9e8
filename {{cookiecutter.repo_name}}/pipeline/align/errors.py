# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The exceptions that end a command with a clear line instead of a traceback."""


class UserError(Exception):
    """Bad input or environment: one line saying what, where and what to do (exit status 2)."""


class PortError(Exception):
    """The port or the reference failed while it ran: one line naming the function, the file and the line."""
