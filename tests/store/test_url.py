"""URLs of stores: their parts, and what is said about mistakes."""

from __future__ import annotations

import pytest

from otel_loopguard.errors import StoreError
from otel_loopguard.store.url import Address, Login, Tls, parse


@pytest.mark.parametrize(
    ("url", "addresses", "database", "shown"),
    [
        ("redis://example.org", [("example.org", 6379)], 0, "redis://example.org:6379"),
        ("redis://example.org:7000/2", [("example.org", 7000)], 2, "redis://example.org:7000/2"),
        ("redis://[::1]:7000?db=3", [("::1", 7000)], 3, "redis://[::1]:7000/3"),
        ("unix:///run/redis.sock?db=1", [("/run/redis.sock", None)], 1, "unix:///run/redis.sock"),
        ("redis+sentinel://a,b:1/main/4", [("a", 26379), ("b", 1)], 4, "redis+sentinel://a:26379,b:1/main/4"),
        ("redis+cluster://a:1,b:2", [("a", 1), ("b", 2)], 0, "redis+cluster://a:1,b:2"),
    ],
)
def test_the_parts_of_a_url(url, addresses, database, shown):
    found = parse(url)
    assert list(found.addresses) == [Address(*each) for each in addresses]
    assert found.database == database
    assert str(found) == shown


@pytest.mark.parametrize(
    ("userinfo", "login"),
    [
        ("", Login()),
        ("ann:secret@", Login("ann", "secret")),
        (":secret@", Login(None, "secret")),
        ("a%40b:%23%2F%3A@", Login("a@b", "#/:")),
        ("ann:se@cret@", Login("ann", "se@cret")),
    ],
)
@pytest.mark.parametrize("where", ["redis://{}host", "unix://{}/run/redis.sock", "redis+sentinel://{}host/main"])
def test_user_and_password(where, userinfo, login):
    assert parse(where.format(userinfo)).login == login


def test_sentinels_may_have_a_login_of_their_own():
    found = parse("redis+sentinel://a/main?sentinel_username=x&sentinel_password=y")
    assert found.sentinel_login == Login("x", "y")
    assert found.service == "main"


def test_the_settings_of_tls():
    assert parse("redis://a").tls is None
    assert parse("rediss://a").tls == Tls()
    given = "rediss+cluster://a?ssl_ca_certs=/ca&ssl_certfile=/c&ssl_keyfile=/k&ssl_check_hostname=false"
    assert parse(given).tls == Tls("/ca", "/c", "/k", verify=True, check_hostname=False)
    assert parse("rediss://a?ssl_cert_reqs=none").tls == Tls(verify=False, check_hostname=False)


def test_the_time_out():
    assert parse("redis://a").timeout == 0.05
    assert parse("redis://a?timeout=0.2").timeout == 0.2


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("s3cret", "this is no URL of a store"),
        ("http://:s3cret@a", "http://: no such kind of store; it must begin with one of redis://, rediss://"),
        ("redis://:s3#cret@a", "# as %23"),
        ("redis://:s3/cret@a", "# as %23, / as %2F"),
        ("redis://:s3cret@[a", "cannot be read"),
        ("redis://:s3cret@", "a host must be NAME"),
        ("redis://:s3cret@a:70000", "a host must be NAME"),
        ("redis://:s3cret@a/main", "the path must be the number of a database"),
        ("redis://:s3cret@a,b", "several hosts; servers behind sentinels are redis+sentinel://"),
        ("redis+sentinel://:s3cret@a", "the name of the service is missing"),
        ("redis+cluster://:s3cret@a/1", "a cluster has only database 0"),
        ("unix://run/redis.sock", "the path of a socket is missing"),
        ("redis://a?timeout=0", "?timeout=: it must be seconds, more than 0 and up to 5"),
        ("redis://a?timeout=soon", "?timeout=: it must be seconds"),
        ("redis://a?db=first", "?db=: it must be a whole number"),
        ("redis://a?tiemout=1", "no such option: ?tiemout=; did you mean timeout?"),
        ("redis://a?ssl_cert_reqs=none", "no such option: ?ssl_cert_reqs="),
        ("rediss://a?ssl_cert_reqs=maybe", "?ssl_cert_reqs=: it must be one of required, none"),
    ],
)
def test_a_mistake_is_named_with_its_remedy_and_without_a_secret(url, message):
    with pytest.raises(StoreError) as raised:
        parse(url)
    assert message in str(raised.value)
    assert "cret" not in str(raised.value)
