"""What a tool's name and arguments tell."""

from __future__ import annotations

import pytest

from otel_loopguard.core.model import Hints, Kind, ToolCall
from otel_loopguard.core.policy.policy import Policy, ToolContract
from otel_loopguard.core.tools.contracts import Contracts
from otel_loopguard.core.tools.lexicon import name_parts


def kind(tool, arguments=None, hints=None, **tools):
    """The kind of a call under a policy with these contracts."""
    return Contracts(Policy(tools=tools)).resolve(ToolCall(tool, arguments or {}, hints=hints)).kind


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("read_file", Kind.READ),
        ("readFile", Kind.READ),
        ("fs.read_file", Kind.READ),
        ("mcp__github__create_issue", Kind.WRITE),
        ("get_job_status", Kind.POLL),
        ("BashOutput", Kind.POLL),
        ("set_status", Kind.WRITE),
        ("update_ticket_status", Kind.WRITE),
        ("git_log", Kind.READ),
        ("sleep", Kind.WAIT),
        ("find_and_replace", Kind.WRITE),
        ("log_time", Kind.WRITE),
        ("get_logs", Kind.READ),
        ("check_in_guest", Kind.WRITE),
        ("next_page", Kind.WRITE),
        ("scrollDown", Kind.WRITE),
        ("run_tests", Kind.SHELL),
        ("delegate_work", Kind.AGENT),
        ("sequentialthinking", Kind.THINK),
        ("final_answer", Kind.FINAL),
        ("Finish", Kind.FINAL),
        ("submit_form", Kind.WRITE),
        ("transfer_to_billing", Kind.HANDOFF),
        ("tool_71", Kind.UNKNOWN),
        ("", Kind.UNKNOWN),
    ],
)
def test_the_name_tells(name, expected):
    """Words that poll or wait decide; else the first verb; else a noun."""
    assert kind(name) is expected


def test_a_prefix_counts_last():
    """A server's name is asked only where the tool's own name says nothing."""
    assert name_parts("status__readFile") == [["read", "file"], ["status"]]
    assert kind("status__read_file") is Kind.READ
    assert kind("search.tool_7") is Kind.READ


@pytest.mark.parametrize(
    ("tool", "arguments", "expected"),
    [
        ("process", {"action": "poll"}, Kind.POLL),
        ("str_replace_editor", {"command": "view", "path": "a"}, Kind.READ),
        ("str_replace_editor", {"command": "str_replace", "path": "a"}, Kind.WRITE),
        ("bash", {"command": "ls -la | grep x"}, Kind.READ),
        ("bash", {"command": "cat a 2>/dev/null"}, Kind.READ),
        ("bash", {"command": "cat a > b"}, Kind.SHELL),
        ("bash", {"command": "echo $(rm x)"}, Kind.SHELL),
        ("bash", {"command": "find . -name x -delete"}, Kind.SHELL),
        ("bash", {"command": "sed -i s/a/b/ f"}, Kind.SHELL),
        ("bash", {"command": "sed -n 1,5p f"}, Kind.READ),
        ("bash", {"command": "grep 'a > b' f"}, Kind.READ),
        ("bash", {"command": "awk '{print > \"out\"}' f"}, Kind.SHELL),
        ("bash", {"command": "git log --oneline"}, Kind.READ),
        ("bash", {"command": "git commit -m x"}, Kind.SHELL),
        ("bash", {"command": "env SEED=1 ./generate.sh"}, Kind.SHELL),
        ("bash", {"command": "env -u A B=1 ls"}, Kind.READ),
        ("bash", {"command": "sudo rm x"}, Kind.SHELL),
        ("bash", {"command": "git remote -v"}, Kind.READ),
        ("bash", {"command": "git remote add o x"}, Kind.SHELL),
        ("bash", {"command": "git -C /x status"}, Kind.READ),
        ("bash", {"command": "git diff --output=x"}, Kind.SHELL),
        ("bash", {"command": "git branch -a"}, Kind.READ),
        ("bash", {"command": "git branch new"}, Kind.SHELL),
        ("bash", {"command": "kubectl -n foo get pods"}, Kind.READ),
        ("bash", {"command": "kubectl -n foo delete pods"}, Kind.SHELL),
        ("bash", {"command": "bash -c 'ls | wc -l'"}, Kind.READ),
        ("bash", {"command": "bash -c 'ls > x'"}, Kind.SHELL),
        ("bash", {"command": "date +%s"}, Kind.READ),
        ("bash", {"command": "date -s 10:00"}, Kind.SHELL),
        ("bash", {"command": "hostname foo"}, Kind.SHELL),
        ("bash", {"command": "uniq a b"}, Kind.SHELL),
        ("bash", {"command": "xxd -r a b"}, Kind.SHELL),
        ("bash", {"command": "sed 's/a/b/w out' f"}, Kind.SHELL),
        ("bash", {"command": "sed -n '1,5p;w out' f"}, Kind.SHELL),
        ("bash", {"command": "sed 's/x/rm/e' f"}, Kind.SHELL),
        ("bash", {"command": "sed -n '/we/,/e$/p' f"}, Kind.READ),
        ("bash", {"command": "rg --pre cmd x"}, Kind.SHELL),
        ("bash", {"command": "less +!rm"}, Kind.SHELL),
        ("bash", {"command": "./test --gen 1"}, Kind.SHELL),
        ("bash", {"command": "/usr/bin/test -f x"}, Kind.READ),
        ("bash", {"command": "/tmp/ls"}, Kind.SHELL),
        ("bash", {"command": "echo don\\'t; ./migrate 1; echo can\\'t"}, Kind.SHELL),
        ("bash", {"command": "ls >/dev/null.txt"}, Kind.SHELL),
        ("bash", {"command": "ls", "cmd": "rm x"}, Kind.SHELL),
        ("bash", {"command": "", "restart": True}, Kind.SHELL),
        ("bash", {"command": ["ssh", "-c", "ls"]}, Kind.SHELL),
        ("bash", {"command": ["bash", "-lc", "ls"]}, Kind.READ),
        ("bash", {"command": []}, Kind.SHELL),
        ("bash", {"commands": ["ls", "rm x"]}, Kind.SHELL),
        ("bash", {"commands": ["ls", "cat x"]}, Kind.READ),
        ("bash", {"command": "sudo --user ls rm x"}, Kind.SHELL),
        ("bash", {"command": "kubectl --as get delete pod y"}, Kind.SHELL),
        ("bash", {"command": "git -c core.pager='rm x' log"}, Kind.SHELL),
        ("bash", {"command": "go env -w A=b"}, Kind.SHELL),
        ("bash", {"command": "git --no-pager log"}, Kind.READ),
        ("get_out", {"cmd": "rm x"}, Kind.SHELL),
        ("tool_71", {"command": "make && ls"}, Kind.SHELL),
        ("tool_71", {"command": "./run status"}, Kind.SHELL),
        ("tool_71", {"command": "cp a b # wait"}, Kind.SHELL),
        ("tool_71", {"command": "cat a | head -1"}, Kind.READ),
        ("get_shell", {"command": "python fix.py && cat out"}, Kind.SHELL),
        ("workspace", {"command": "create"}, Kind.WRITE),
        ("bash", {"command": "cd src"}, Kind.SHELL),
        ("bash", {"command": "cd src && ls"}, Kind.READ),
        ("bash", {"command": "sleep 30"}, Kind.WAIT),
        ("bash", {"command": "sleep 30 && cat log"}, Kind.POLL),
        ("bash", {"command": ""}, Kind.POLL),
        ("bash", {"command": "'"}, Kind.SHELL),
        ("bash", {"command": 7}, Kind.SHELL),
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
def test_the_arguments_may_tell_more(tool, arguments, expected):
    """Actions, commands and SQL say what a call does; what cannot be read may write."""
    assert kind(tool, arguments) is expected


def test_declared_before_hinted_before_inferred():
    """The policy has the first word, the tool's server the second, its name the last."""
    hints = Hints(read_only=True)
    assert kind("tool_71", hints=hints) is Kind.READ
    assert kind("search", hints=Hints(read_only=False)) is Kind.WRITE
    assert kind("get_status", hints=hints) is Kind.POLL
    assert kind("tool_71", hints=hints, **{"tool_*": ToolContract(kind="write")}) is Kind.WRITE


def test_the_more_specific_glob_says_more():
    """Contracts of several globs add up; where they differ, the longer one holds."""
    contracts = Contracts(
        Policy(
            tools={"*": ToolContract(cap=9), "read_*": ToolContract(kind="read", cap=5), "read_x": ToolContract(cap=1)}
        )
    )
    assert [contracts.tool(name, None).contract.cap for name in ("other", "read_y", "read_x")] == [9, 5, 1]
    assert contracts.tool("read_x", None).kind is Kind.READ


def test_a_gateway_is_seen_through():
    """A call through a gateway is judged as a call of the tool behind it."""
    call = ToolCall("execute-tool", {"server_name": "s", "tool_name": "write_file", "params": {"path": "a"}})
    resolved = Contracts(Policy()).resolve(call)
    assert (resolved.tool.name, resolved.kind) == ("write_file", Kind.WRITE)
    own = Contracts(Policy(tools={"door": ToolContract(route={"tool": "what", "args": "how"})}))
    assert own.resolve(ToolCall("door", {"what": "read_file", "how": {"p": 1}})).arguments == {"p": 1}


def test_ones_own_words_win():
    """A policy extends the word lists."""
    contracts = Contracts(Policy(words={"read": ("frobnicate",), "write": ("list",)}))
    assert contracts.tool("frobnicate_it", None).kind is Kind.READ
    assert contracts.tool("list_it", None).kind is Kind.WRITE
