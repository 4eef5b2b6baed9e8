# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""The exception that ends the driver with one clear line."""


class TipcError(Exception):
    """Wrong configuration, argument or environment: what, where and what to do (exit status 2)."""
