"""Hostile texts: a unit that some pattern or search of the package begins to match, repeated to any size.

Every regular expression of the package has its units here, so a pattern that needs more than linear time shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

_UUID = "123e4567-e89b-12d3-a456-426614174000"

UNITS: dict[str, str] = {
    # any text
    "one letter": "a",
    "words": "lorem ipsum dolor ",
    "lines": "a line\n",
    "blanks": " ",
    "tabs": "\t",
    "line breaks": "\n",
    "carriage returns": "\r\n",
    "NULs": "\0",
    "backslashes": "\\",
    "bad escapes": "\\q",
    "combining marks": "e\u0301\u0323",
    "letters that grow in lower case": "\u0130",
    "sharp s": "\u00df",
    "emoji": "\U0001f468\u200d\U0001f469\u200d\U0001f467",
    "lone surrogates": "\ud800",
    "escape codes": "\x1b",
    "base64": "QUJDRGVmZ2hpSktMTU5vcHFyc3R1dnd4eXo",
    # quotes and brackets: errors, literals, JSON
    "double quotes": '"',
    "single quotes": "'",
    "backticks": "`",
    "escaped quotes": '\\"',
    "open quotes in lines": "'a\n",
    "pairs of quotes": "'a' ",
    "open brackets": "[",
    "open braces": "{",
    "open parentheses": "(",
    "brackets": "[]",
    "keys": '{"a":',
    "literal keys": "{'a':",
    "rows of numbers": "[1,2.0,3],",
    "tuples": "(1,),",
    "nested JSON texts": '["[1]"],',
    # masking
    "zeros": "0",
    "digits": "1234567890",
    "numbers": "17 ",
    "letters before digits": "abcdefgh_1 ",
    "letters and digits": "a1",
    "digits and letters": "1a",
    "hexadecimal": "0a1b2c3d",
    "hexadecimal words": "0a1b2c3d ",
    "hexadecimal letters": "abcdef",
    "0x": "0x",
    "0x with digits": "0x1f ",
    "uuids": _UUID + " ",
    "uuids without end": _UUID[:-1] + "-",
    "timestamps": "2026-11-22T10:00:00.123Z ",
    "timestamps with blanks": "2026-11-22 10:00:00 UTC ",
    "timestamps without end": "2026-11-22T10:00:",
    "dates": "2026-11-22 ",
    "HTTP dates": "Sun, 22 Nov 2026 10:00:00 GMT ",
    "days": "22 Nov 2026 ",
    "clocks": "10:00 ",
    "durations": "12.5 ms ",
    "durations without a blank": "12ms",
    "decimals": "1.5",
    "dots and digits": "1.",
    "dashes and digits": "1-",
    "underscores and digits": "1_",
    "exponents": "1e+",
    "fractions": "5 of 40 ",
    "slashes": "5/40",
    "remaining": "1 a b remaining",
    "almost remaining": "1 aaaaaaaa aaaaaaaa ",
    "left": "left: 1 ",
    "shares": "12.5 %",
    "attempts": "attempt retry fail error ",
    "names of ids": "id: 17 ",
    "order ids": "order_id=ORD-17,",
    "ids without number": "id",
    "process": "process ",
    "request ids": "request_id=",
    "request ids with value": 'request_id: "a", ',
    "open request ids": 'request_id:"',
    "nonce": "nonce",
    "etag": 'etag="',
    "trace ids": "trace-id: ab ",
    "latency": "latency: 12.5, ",
    "open latency": 'latency:"',
    "took": "took",
    "elapsed without end": "elapsed_aaaaaaaa",
    "colours": "\x1b[31m",
    "colours without end": "\x1b[1;",
    "escaped colours": "\\u001b[31m",
    "nulls": "null ",
    "quoted keys": '"a": ',
    # reports and errors
    "status numbers": "500 ",
    "429": "429",
    "status codes": "status code: 500 ",
    "HTTP": "HTTP/1.1.1.1.1",
    "gateway": "502 bad ",
    "timeouts": "time out timed-",
    "connection": "connection was ",
    "connection refused": "connection refused ",
    "limits": "rate limit overloaded unavailable too many ",
    "service": "service is temporarily ",
    "isError": "isError",
    "is_error": "is_error: ",
    "is_error with escapes": "is_error\\\\",
    "sError": "sError",
    "exceptions": "a.b.c.Error: ",
    "packages": "a.",
    "capitals": "AError",
    "error": "error ",
    "tool": "tool ",
    "pending": "pend",
    "not done": "done: ",
    "ready": 'ready" : "',
    "not ready": "not ready yet ",
    "exit codes": "process exited with code 1 ",
    # commands
    "pipes": "ls | ",
    "ands": "ls && ",
    "semicolons": ";",
    "commands in lines": "ls\n",
    "assignments": "A=1 ",
    "runners": "env A=1 nice -n 1 ",
    "shells": "bash -c ",
    "quoted shells": "bash -c 'ls' ; ",
    "redirections": "2>&1 ",
    "redirections to null": "> /dev/null ",
    "substitutions": "$(ls ",
    "quoted words": "'ls' ",
    "quoted separators": "';' ",
    "double quoted words": '"a" ; ',
    "escapes": "\\a",
    "comments": "# a\n",
    "sed scripts": "sed 's/a/b/' ; ",
    "sed addresses": "1,2{;}",
    "awk scripts": "awk '{print}' | ",
    "flags": "git --no-pager -c a=b ",
    "flags of find": "find . -name a -exec ",
    "sleeps": "sleep 1; ",
    "paths": "/usr/local/bin/",
    # SQL and queries
    "selects": "select 1; ",
    "select into": "select a into ",
    "updates": "update a.b.c ",
    "updates as": "update only a as b ",
    "deletes": "delete from ",
    "inserts": "insert into ",
    "creates": "create table ",
    "explains": "explain analyze ",
    "SQL comments": "-- \n",
    "SQL blocks": "/* */",
    "open SQL blocks": "/*",
    "SQL quotes": "'' ",
    "pragma": "pragma a.b",
    "commas": "a, ",
    "punctuation": "!?.,;:",
    # names of tools
    "camel case": "getA",
    "capital letters": "A",
    "prefixes": "a__",
    "colons": "a::",
    "underscores": "get_",
}
"""By name: the unit that is repeated."""

BEGINNINGS: dict[str, str] = {
    "": "",
    "as an error": "Error: ",
    "as an exception": "ValueError: ",
    "as JSON": '{"error": ',
    "as a text in JSON": '["',
    "as a literal": "('",
    "as a select": "select ",
    "as an update": "update ",
    "as a quoted word": "ls '",
    "as a number": "1",
}
"""Texts before the units: some patterns are tried only after them."""


def repeated(unit: str, size: int, beginning: str = "") -> Callable[[int], str]:
    """Make texts of this size that differ in their last characters only."""
    body = beginning + unit * (size // len(unit))
    return lambda number: f"{body}!{number}"


def texts(size: int) -> dict[str, Callable[[int], str]]:
    """Return every unit after every beginning, repeated to this size."""
    return {
        f"{size:,} {name} {after}".rstrip(): repeated(unit, size, beginning)
        for after, beginning in BEGINNINGS.items()
        for name, unit in UNITS.items()
    }


def fields_of_json(size: int) -> dict[str, Callable[[int], str]]:
    """Return JSON texts of this size: wide, deep, with long keys and with texts that hold JSON again."""
    return {
        f"{size:,} of {name}": made
        for name, made in {
            "JSON numbers": lambda number: "[" + "1," * (size // 2) + f"{number}]",
            "JSON rows": lambda number: "[" + '{"id": 17, "t": "12 ms"},' * (size // 25) + f"{number}]",
            "JSON keys": lambda number: "{" + "".join(f'"k{at}":1.0,' for at in range(size // 12)) + f'"n":{number}}}',
            "JSON depth": lambda number: "[" * (size // 2) + str(number) + "]" * (size // 2),
            "JSON of depth 300": lambda number: ("[" * 300 + str(number) + "]" * 300) * (size // 600),
            "JSON objects of depth 300": lambda number: '{"a":' * 300 + str(number) + "}" * 300,
            "JSON of depth 1,000": lambda number: "[" * 1_000 + str(number) + "]" * 1_000,
            "JSON in JSON": lambda number: '{"a": "' + '[\\"x\\", 1.0], ' * (size // 15) + f'{number}"}}',
            "literals": lambda number: "[" + "(1, 'a'), " * (size // 10) + f"{number}]",
            "literal sums": lambda number: "[" + "1+" * (size // 2) + f"{number}]",
            "literal signs": lambda number: "[" + "-" * size + f"{number}]",
        }.items()
    }
