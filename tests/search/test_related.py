from __future__ import annotations

from agentforge.search.related import imported_modules, module_names, related_tests
from tests.search.conftest import make_tree


def test_files_that_import_the_same_module_are_related() -> None:
    tree = make_tree(
        {
            "src/pkg/__init__.py": "",
            "src/pkg/a.py": "",
            "src/pkg/b.py": "",
            "tests/test_a.py": "from pkg import a\n",
            "tests/test_a_more.py": "import pkg.a\n",
            "tests/test_b.py": "from pkg import b\n",
            "tests/helper.py": "from pkg import a\n",
        }
    )
    files = related_tests(tree, ["tests/test_a.py::test_x"])
    assert files[0] == "tests/test_a.py"
    assert "tests/test_a_more.py" in files
    assert "tests/helper.py" not in files
    assert files.index("tests/test_a_more.py") < (*files, "tests/test_b.py").index("tests/test_b.py")


def test_a_target_that_is_gone_is_no_error() -> None:
    assert related_tests(make_tree({"a.py": ""}), ["tests/test_gone.py::test_x"]) == ("tests/test_gone.py",)


def test_imports_are_read_without_running_anything() -> None:
    code = b"import os.path\nfrom a.b import c as d\nraise SystemExit\n"
    assert imported_modules(code) == {"os.path", "a.b", "a.b.c"}
    assert imported_modules(b"def broken(:\n") == frozenset()
    assert module_names("src/pkg/mod.py") == ("src.pkg.mod", "pkg.mod", "mod")
    assert module_names("pkg/__init__.py") == ("pkg",)
