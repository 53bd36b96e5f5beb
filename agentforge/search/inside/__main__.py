from __future__ import annotations

from .supervisor import main

main()
