# Copyright (c) 2026 The reprod-template Authors.
# Licensed under the Apache License, Version 2.0 (see LICENSE).
# SPDX-License-Identifier: Apache-2.0
"""Say what to do next. Nothing here changes the generated repository."""
import json

answers = json.loads(r"""{{ cookiecutter | tojson }}""")

aligned = {"example": "the five steps on the built-in sample, both sides", "blank": "says which function to write first"}
print(f"""
Generated {answers["repo_name"]}. Next:
    cd {answers["repo_name"]}
    make setup    # a virtual environment with both frameworks
    make align    # {aligned[answers["start"]]}""")
