"""Shell commands and SQL statements: those that only read, and all others."""

from __future__ import annotations

import pytest

from otel_loopguard.engine.policy.policy import Policy
from otel_loopguard.engine.tools.contracts import Contracts
from otel_loopguard.engine.tools.lexicon import word_lists
from otel_loopguard.engine.tools.shell_commands import sql_kind
from otel_loopguard.engine.vocabulary import Kind, Outcome, ToolCall
from otel_loopguard.guard.guard import Guard


def kind(tool, arguments):
    """Return the kind of a call under the default policy."""
    return Contracts(Policy()).resolve(ToolCall(tool, arguments)).kind


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"command": "ls -la | grep x"}, Kind.READ),
        ({"command": "cat a 2>/dev/null"}, Kind.READ),
        ({"command": "cat a > b"}, Kind.SHELL),
        ({"command": "echo $(rm x)"}, Kind.SHELL),
        ({"command": "find . -name x -delete"}, Kind.SHELL),
        ({"command": "sed -i s/a/b/ f"}, Kind.SHELL),
        ({"command": "sed -n 1,5p f"}, Kind.READ),
        ({"command": "grep 'a > b' f"}, Kind.READ),
        ({"command": "awk '{print > \"out\"}' f"}, Kind.SHELL),
        ({"command": "git log --oneline"}, Kind.READ),
        ({"command": "git commit -m x"}, Kind.SHELL),
        ({"command": "env SEED=1 ./generate.sh"}, Kind.SHELL),
        ({"command": "env -u A B=1 ls"}, Kind.READ),
        ({"command": "sudo rm x"}, Kind.SHELL),
        ({"command": "git remote -v"}, Kind.READ),
        ({"command": "git remote add o x"}, Kind.SHELL),
        ({"command": "git -C /x status"}, Kind.READ),
        ({"command": "git diff --output=x"}, Kind.SHELL),
        ({"command": "git branch -a"}, Kind.READ),
        ({"command": "git branch new"}, Kind.SHELL),
        ({"command": "kubectl -n foo get pods"}, Kind.READ),
        ({"command": "kubectl -n foo delete pods"}, Kind.SHELL),
        ({"command": "bash -c 'ls | wc -l'"}, Kind.READ),
        ({"command": "bash -c 'ls > x'"}, Kind.SHELL),
        ({"command": "date +%s"}, Kind.READ),
        ({"command": "date -s 10:00"}, Kind.SHELL),
        ({"command": "hostname foo"}, Kind.SHELL),
        ({"command": "uniq a b"}, Kind.SHELL),
        ({"command": "xxd -r a b"}, Kind.SHELL),
        ({"command": "sed 's/a/b/w out' f"}, Kind.SHELL),
        ({"command": "sed -n '1,5p;w out' f"}, Kind.SHELL),
        ({"command": "sed 's/x/rm/e' f"}, Kind.SHELL),
        ({"command": "sed -n '/we/,/e$/p' f"}, Kind.READ),
        ({"command": "rg --pre cmd x"}, Kind.SHELL),
        ({"command": "less +!rm"}, Kind.SHELL),
        ({"command": "./test --gen 1"}, Kind.SHELL),
        ({"command": "/usr/bin/test -f x"}, Kind.READ),
        ({"command": "/opt/tools/ls"}, Kind.SHELL),
        ({"command": "echo don\\'t; ./migrate 1; echo can\\'t"}, Kind.SHELL),
        ({"command": "ls >/dev/null.txt"}, Kind.SHELL),
        ({"command": "ls", "cmd": "rm x"}, Kind.SHELL),
        ({"command": "", "restart": True}, Kind.SHELL),
        ({"command": ["ssh", "-c", "ls"]}, Kind.SHELL),
        ({"command": ["bash", "-lc", "ls"]}, Kind.READ),
        ({"command": []}, Kind.SHELL),
        ({"commands": ["ls", "rm x"]}, Kind.SHELL),
        ({"commands": ["ls", "cat x"]}, Kind.READ),
        ({"command": "sudo --user ls rm x"}, Kind.SHELL),
        ({"command": "kubectl --as get delete pod y"}, Kind.SHELL),
        ({"command": "git -c core.pager='rm x' log"}, Kind.SHELL),
        ({"command": "go env -w A=b"}, Kind.SHELL),
        ({"command": "git --no-pager log"}, Kind.READ),
        ({"command": "cd src"}, Kind.SHELL),
        ({"command": "cd src && ls"}, Kind.READ),
        ({"command": "sleep 30"}, Kind.WAIT),
        ({"command": "sleep 30 && cat log"}, Kind.POLL),
        ({"command": ""}, Kind.POLL),
        ({"command": "'"}, Kind.SHELL),
        ({"command": 7}, Kind.SHELL),
    ],
)
def test_a_command_reads_only_if_all_of_it_reads(arguments, expected):
    """Programs, flags, redirections and subcommands decide; a command that is not understood may write."""
    assert kind("bash", arguments) is expected


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("execute_sql", {"sql": "SELECT * FROM x"}, Kind.READ),
        ("execute_sql", {"sql": "-- look\n(select 1)"}, Kind.READ),
        ("execute_sql", {"sql": "with x as (select 1) insert into y select * from x"}, Kind.WRITE),
        ("query", {"sql": "DELETE FROM x"}, Kind.WRITE),
        ("query", {"sql": "SELECT 1; UPDATE public.t SET x = 1"}, Kind.WRITE),
        ("execute_sql", {"sql": "select * into newt from t"}, Kind.WRITE),
        ("execute_sql", {"sql": "pragma user_version = 3"}, Kind.WRITE),
        ("execute_sql", {"sql": "pragma table_info(x)"}, Kind.READ),
        ("execute_sql", {"sql": "explain analyze delete from t"}, Kind.WRITE),
        ("query", {"sql": "-- c\nDELETE FROM t"}, Kind.WRITE),
        ("query", {"query": "/* c */ DELETE FROM t"}, Kind.WRITE),
        ("query", {"query": "UPDATE t AS u SET x = 1"}, Kind.WRITE),
        ("query", {"query": "BEGIN; DELETE FROM t; COMMIT"}, Kind.WRITE),
        ("query", {"query": "WITH a AS (DELETE FROM t RETURNING *) SELECT * FROM a"}, Kind.WRITE),
        ("query", {"sql": "CREATE USER u"}, Kind.WRITE),
        ("query", {"sql": "SET x = 1"}, Kind.WRITE),
        ("execute_sql", {"sql": "SELECT 1; TRUNCATE t"}, Kind.WRITE),
        ("execute_sql", {"sql": "SHOW CREATE TABLE t"}, Kind.READ),
        ("execute_sql", {"sql": "SELECT * FROM t WHERE a LIKE '%drop table%'"}, Kind.READ),
        ("search", {"query": "vacuum cleaner reviews"}, Kind.READ),
        ("search", {"query": "call mom tomorrow"}, Kind.READ),
        ("search", {"query": "commit message conventions"}, Kind.READ),
        ("query", {"query": "COMMIT"}, Kind.WRITE),
        ("search", {"query": "show me how to insert into a table"}, Kind.READ),
        ("search", {"query": "select a winner and move into final"}, Kind.READ),
        ("search", {"query": "update my address"}, Kind.READ),
    ],
)
def test_a_statement_reads_only_if_all_of_it_reads(tool, arguments, expected):
    """SQL is recognised by its first words; a question in plain words is no SQL."""
    assert kind(tool, arguments) is expected


@pytest.mark.parametrize("tool", ["query", "execute_sql"])
@pytest.mark.parametrize("parameter", ["sql", "query"])
def test_a_look_after_long_statements_that_write_is_not_refused(tool, parameter):
    """The word that writes may be anywhere in a statement that is too long to be read to its end."""
    turn = Guard().turn()
    columns = ", ".join(f"column_{number}" for number in range(500))
    for row in range(6):
        delete = f"WITH x AS (SELECT {columns} FROM u) DELETE FROM t USING x WHERE x.id = {row}"
        for statement, result in (("SELECT count(*) FROM t", "7"), (delete, "done")):
            call = ToolCall(tool, {parameter: statement})
            assert turn.begin(call).runs
            turn.end(call, Outcome(result))


READING = [f"{word} x" for word in word_lists()["sql"]["read"]]
WRITING = [
    "insert into x", "update x set y = 1", "delete from x", "create table x", "drop table x", "alter table x",
    "truncate x", "merge into x", "replace into x", "grant a to b", "revoke a on b", "call x()", "begin", "commit",
    "rollback", "copy x from y", "vacuum full", "upsert into x",
]  # fmt: skip


@pytest.mark.parametrize("before", ["", " ", "\n", "(", "/* c */", "-- c\n"])
@pytest.mark.parametrize("statement", READING + WRITING)
def test_each_word_of_sql_is_found_at_the_beginning(statement, before):
    """In lower and upper case, after blanks, parentheses and comments."""
    expected = Kind.READ if statement in READING else Kind.WRITE
    for one in (statement, statement.upper()):
        assert sql_kind(before + one, Kind.UNKNOWN) is expected
        assert kind("lookup", {"query": before + one}) is expected
