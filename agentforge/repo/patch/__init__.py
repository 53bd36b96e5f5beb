"""The patch engine: any answer a model may give, applied whole or refused with a reason.

Pure on bytes over a `TreeReader`; only `DirectoryTree` and `write_changes` touch a disk. The rules
are in docs/patch-engine.md.
"""

from agentforge.repo.patch.answer import apply_answer
from agentforge.repo.patch.directory import DirectoryTree
from agentforge.repo.patch.edits import AppliedEdit, EditFormat
from agentforge.repo.patch.refusal import precise_reason
from agentforge.repo.patch.writing import write_changes

__all__ = [
    "AppliedEdit",
    "DirectoryTree",
    "EditFormat",
    "apply_answer",
    "precise_reason",
    "write_changes",
]
