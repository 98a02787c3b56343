"""Take one condition or one effect out of a module, without a trace of it in the files.

A mutant is the code of one function with an ``if`` that is always or never true, without an operand of ``and`` or
``or``, or without a statement that has an effect. It takes the place of the function's code, so that each reference to
the function sees it.
"""

from __future__ import annotations

import ast
import inspect
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import CodeType, FunctionType, ModuleType


class Mutant(NamedTuple):
    """One change of a function."""

    module: ModuleType
    function: str
    line: int
    change: str
    code: CodeType

    def __str__(self) -> str:
        file = Path(self.module.__file__ or "").name
        return f"{file}:{self.line} {self.function}: {self.change}"


class _Edit(NamedTuple):
    """A field of a node, and what takes its place; a list's item if there is a ``place``."""

    node: ast.AST
    field: str
    place: int | None
    instead: ast.AST
    change: str

    def swap(self, new: ast.AST) -> Any:
        """Put a node in its place. Return the one that was there."""
        if self.place is None:
            old = getattr(self.node, self.field)
            setattr(self.node, self.field, new)
            return old
        items = getattr(self.node, self.field)
        old, items[self.place] = items[self.place], new
        return old


def mutants_of(module: ModuleType) -> Iterator[Mutant]:
    """Yield all mutants of the functions and methods of a module."""
    tree = ast.parse(inspect.getsource(module))
    for path, function in _functions(tree):
        for edit in _edits(function):
            old = edit.swap(edit.instead)
            ast.copy_location(edit.instead, old)
            code = _code_of(compile(ast.fix_missing_locations(tree), str(module.__file__), "exec"), path)
            edit.swap(old)
            if code.co_freevars == function_of(module, ".".join(path)).__code__.co_freevars:
                yield Mutant(module, ".".join(path), old.lineno, edit.change, code)


def _functions(tree: ast.Module) -> Iterator[tuple[tuple[str, ...], ast.AST]]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in tree.body:
        if isinstance(node, functions):
            yield (node.name,), node
        elif isinstance(node, ast.ClassDef):
            yield from (((node.name, one.name), one) for one in node.body if isinstance(one, functions))


def _edits(function: ast.AST) -> Iterator[_Edit]:
    for node in ast.walk(function):
        if isinstance(node, (ast.If, ast.IfExp, ast.While)):
            text = ast.unparse(node.test)
            for value in (True, False):
                yield _Edit(node, "test", None, ast.Constant(value), f"{value} instead of: {text}")
        for place, test in enumerate(getattr(node, "ifs", [])):
            yield _Edit(node, "ifs", place, ast.Constant(value=True), f"True instead of: {ast.unparse(test)}")
        if isinstance(node, ast.BoolOp):
            neutral = isinstance(node.op, ast.And)
            for place, operand in enumerate(node.values):
                change = f"without {ast.unparse(operand)} in: {ast.unparse(node)}"
                yield _Edit(node, "values", place, ast.Constant(neutral), change)
        for field in ("body", "orelse", "finalbody"):
            statements = getattr(node, field, [])
            if not isinstance(statements, list) or (isinstance(node, ast.If) and len(statements) == 1):
                continue  # as if its test were constant
            for place, statement in enumerate(statements):
                if _has_effect(statement):
                    yield _Edit(node, field, place, ast.Pass(), f"without: {ast.unparse(statement)}")


def _has_effect(statement: ast.AST) -> bool:
    if isinstance(statement, ast.Expr):
        return not isinstance(statement.value, ast.Constant)
    if isinstance(statement, ast.Assign):
        return any(not isinstance(target, ast.Name) for target in statement.targets)
    return isinstance(statement, (ast.AugAssign, ast.Delete, ast.Raise))


def _code_of(code: CodeType, path: tuple[str, ...]) -> CodeType:
    """Return the code of a function in that of its module. Of two with one name the last one counts."""
    for name in path:
        code = [one for one in code.co_consts if inspect.iscode(one) and one.co_name == name][-1]
    return code


def function_of(module: ModuleType, name: str) -> FunctionType:
    """Return the function of a qualified name, out of whatever wraps it."""
    first, *rest = name.split(".")
    found: Any = vars(module)[first]
    for part in rest:
        found = vars(found)[part]
    for wrapped in ("fget", "__func__", "__wrapped__"):
        found = getattr(found, wrapped, found)
    return found


@contextmanager
def in_place(mutant: Mutant) -> Iterator[None]:
    """Run the mutant's code in place of the function's."""
    function = function_of(mutant.module, mutant.function)
    before, function.__code__ = function.__code__, mutant.code
    try:
        yield
    finally:
        function.__code__ = before
