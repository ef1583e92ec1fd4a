"""Labelled pairs: what two statements of a team's knowledge must, and must not, be flagged for."""

import pytest

from ingest.differences import ComparedUnit, compare

NEAR = 0.8  # cosine of two sentences about one attribute, as MiniLM sees them

DISAGREE = [
    # (text, text, kind): the first group is what the old detector missed
    (
        "The connection pool limit of the orders service is 50.",
        "The connection pool limit of the orders service is 20.",
        "number",
    ),
    ("The gateway handles 100 rps.", "The gateway handles 1000 rps.", "number"),
    ("We chose PostgreSQL for the orders database.", "We chose MySQL for the orders database.", "name"),
    ("Feature flag Falcon is enabled in production.", "Feature flag Falcon is disabled in production.", "antonym"),
    ("Retries are not enabled on the Payments API.", "Retries are enabled on the Payments API.", "negation"),
    ("Retries are enabled on the Payments API.", "Retries are not enabled on the Payments API.", "negation"),
    # numbers and units
    ("The retry limit for the payments client is 5.", "The retry limit for the payments client is 6.", "number"),
    (
        "The retry limit for the payments client is 5.",
        "We raised the retry limit for the payments client from 5 to 6.",
        "number",
    ),
    ("The request timeout of Atlas is 30 seconds.", "The request timeout of Atlas is 45 s.", "number"),
    ("Atlas times out after 500 ms.", "Atlas times out after 2 seconds.", "number"),
    ("Backups are kept for 30 days.", "Backups are kept for 90 days.", "number"),
    ("The upload size limit is 10 MB.", "The upload size limit is 25 MB.", "number"),
    ("Orion runs five replicas.", "Orion runs 3 replicas.", "number"),
    ("The error budget of Checkout is 0.1%.", "The error budget of Checkout is 0.5%.", "number"),
    ("Atlas allows up to 5 retries.", "Atlas allows up to 8 retries.", "number"),
    ("Atlas allows up to 5 retries.", "Atlas allows 9 retries.", "number"),
    ("The service listens on port 8080.", "The service listens on port 9090.", "number"),
    ("The licence costs $1,200 a year.", "The licence costs $1,500 a year.", "number"),
    ("Contractors get 25 vacation days.", "Contractors get 20 vacation days.", "number"),
    # dates
    ("The deploy freeze starts Friday.", "The deploy freeze starts Monday.", "date"),
    ("The Falcon launch is on 1 March 2026.", "The Falcon launch is on 2026-03-02.", "date"),
    ("Project Lynx was founded in 2019.", "Project Lynx was founded in 2021.", "date"),
    ("The contract with Initech expires in June 2027.", "The contract with Initech expires in August 2027.", "date"),
    ("The deadline for the audit is March 15.", "The deadline for the audit is April 2.", "date"),
    ("The maintenance window starts at 10:00.", "The maintenance window starts at 14:00.", "date"),
    ("Falcon will be released in Q3 2026.", "Falcon will be released in November 2026.", "date"),
    # names
    ("The on-call lead this week is Ana.", "From today the on-call lead is Ben.", "name"),
    ("Ana is the on-call lead.", "Ben is the on-call lead.", "name"),
    ("Kiran lives in Whitefield.", "Kiran lives in Electronic City.", "name"),
    ("Ticket 88 is owned by Sam.", "Ticket 88 was handed over to Ines.", "name"),
    ("Kiran is assigned to Project Alpha.", "Kiran is assigned to Project Beta.", "name"),
    ("Moody's credit rating for ACME is Baa2.", "Moody's upgraded ACME's credit rating to Baa1.", "name"),
    ("Dana leads the platform team.", "The platform team is led by Omar.", "name"),
    ("The primary region of Atlas is Frankfurt.", "The primary region of Atlas is Dublin.", "name"),
    ("The platform team owns the gateway.", "The gateway is owned by the payments team.", "claim"),
    ("Kiran lives in Whitefield.", "Kiran moved from Whitefield to Electronic City.", "claim"),
    ("Kiran is assigned to Project Alpha.", "Kiran moved from Project Alpha to Project Beta.", "claim"),
    ("We chose PostgreSQL over MySQL for billing.", "We chose MySQL over PostgreSQL for billing.", "name"),
    # negation
    ("Redis is used for sessions.", "Redis is no longer used for sessions.", "negation"),
    ("Deploy Atlas on Fridays.", "Never deploy Atlas on Fridays.", "negation"),
    ("The Atlas cache doesn't survive a restart.", "The Atlas cache survives a restart.", "negation"),
    ("Nicholas is drinking green tea.", "Nicholas stopped drinking green tea.", "negation"),
    ("Contractors can read the customer database.", "Contractors cannot read the customer database.", "negation"),
    # antonyms
    ("Nora loves Chinese food.", "Nora hates Chinese food.", "antonym"),
    ("Code review is mandatory for hotfixes.", "Code review is optional for hotfixes.", "antonym"),
    ("The Falcon proposal was approved.", "The Falcon proposal was rejected.", "antonym"),
    ("The Atlas API is stable.", "The Atlas API is unstable.", "antonym"),
    ("Traffic between the services is encrypted.", "Traffic between the services is unencrypted.", "antonym"),
    ("The vendor portal is public.", "The vendor portal is private.", "antonym"),
    ("Writes to the ledger are synchronous.", "Writes to the ledger are asynchronous.", "antonym"),
]

AGREE = [
    # what the old detector fired on although both agree
    ("Atlas stores sessions in Redis.", "Atlas stores sessions in Redis, but the keys expire after an hour."),
    ("The Orders API is versioned.", "However, the Orders API is versioned."),
    ("The gateway caches responses.", "The gateway not only caches responses, it also compresses them."),
    (
        "We will switch to PostgreSQL for the orders service.",
        "The orders service should switch to PostgreSQL this quarter.",
    ),
    ("Feature flag Falcon is enabled.", "Feature flag Falcon is enabled, however only the beta users see it."),
    # the same value, said otherwise
    ("The request timeout of Atlas is 1 s.", "The request timeout of Atlas is 1000 ms."),
    ("Backups are kept for 2 weeks.", "Backups are kept for 14 days."),
    ("The upload size limit is 1 GB.", "The upload size limit is 1024 MB."),
    ("Orion runs five replicas.", "Orion runs 5 replicas."),
    ("Atlas allows up to 5 retries.", "Atlas allows 3 retries."),
    ("Atlas serves about 1000 rps.", "Atlas serves 1040 rps."),
    ("The Falcon launch is on 1 March 2026.", "The Falcon launch is on 2026-03-01."),
    ("The Falcon launch is on 2026-03-06.", "The Falcon launch is on Friday."),
    ("Falcon will be released in Q3 2026.", "Falcon will be released in August 2026."),
    ("The on-call lead is Ana.", "The on-call lead is Ana Kovač."),
    ("Retries are not disabled on the Payments API.", "Retries are enabled on the Payments API."),
    ("It is not true that Atlas is never restarted.", "It is true that Atlas is restarted."),
    # other things: similar is not same
    ("Room 101 has a projector.", "Room 102 has a whiteboard."),
    ("Room 101 has 20 seats.", "Room 102 has 30 seats."),
    ("Flight UA123 leaves from gate B4.", "Flight UA124 leaves from gate C9."),
    ("The 2023 report lists 40 incidents.", "The 2024 report lists 55 incidents."),
    ("The payments API limit is 100 rps.", "The search API limit is 1000 rps."),
    ("Retries are enabled on the Payments API.", "Retries are disabled on the Search API."),
    ("Module v1 is stable.", "Module v2 is unstable."),
    ("The old gateway is down.", "The new gateway is up."),
    ("Orion runs 3 replicas.", "Orion runs 5 workers."),
    ("The p95 latency was 120 ms in March.", "The p95 latency was 150 ms in April."),
    ("The incident on 1 March was caused by DNS.", "The incident on 5 March was caused by DNS."),
    ("Kai visited Oslo on Monday.", "Kai visited Oslo on Thursday."),
    # facts that add up
    ("Maya works at Orion as head of compliance.", "Maya administers Orion's GitHub organisation."),
    ("Maya imposed an audit requirement on Project Lynx.", "Maya works at Orion as head of compliance."),
    ("Service A uses Service B.", "Service A uses Service C."),
    ("Service A uses Service B.", "Service B uses Service C."),
    ("Atlas depends on Redis.", "Atlas depends on Kafka."),
    ("Maya works on Lynx.", "Maya works on Falcon."),
    ("Maya knows Python.", "Maya knows Rust."),
    ("The team met with Initech.", "The team met with Globex."),
    ("Orion supports SAML.", "Orion supports OIDC."),
    ("The release includes a fix for Atlas.", "The release includes a fix for Falcon."),
    ("Kiran moved from Whitefield to Electronic City.", "Kiran moved from Project Alpha to Project Beta."),
    # partly, under a condition, asked
    ("Some users cannot log in to Atlas.", "Users can log in to Atlas."),
    ("If the cache is disabled, Atlas reads the database.", "The Atlas cache is enabled."),
    ("Is Falcon enabled in production?", "Falcon is not enabled in production."),
    ("Falcon is not enabled in staging.", "Falcon is enabled."),
    ("The service needs a large cache.", "The service needs a small cache."),
    ("Disable the cache before the Atlas tests.", "Enable the cache after the Atlas tests."),
    ("Nicholas stopped drinking green tea.", "Nicholas drinks black tea."),
    ("We chose PostgreSQL for billing.", "We chose Kafka for events."),
    ("We migrated from MySQL to PostgreSQL.", "The orders service runs on PostgreSQL."),
    ("Use tabs, not spaces, in the Makefile.", "Use tabs in the Makefile."),
]


def unit(unit_id: str, text: str) -> ComparedUnit:
    return ComparedUnit(unit_id, text, keys=frozenset({"~subject"}))


def never_same(_name: str, _other: str) -> bool:
    return False


@pytest.mark.parametrize(("text", "other", "kind"), DISAGREE)
def test_statements_that_exclude_each_other_are_flagged_with_what_differs(text: str, other: str, kind: str) -> None:
    for a, b in ((text, other), (other, text)):
        found = compare(unit("a", a), unit("b", b), NEAR, never_same)
        assert found is not None
        assert found.kind == kind


@pytest.mark.parametrize(("text", "other"), AGREE)
def test_statements_that_can_both_hold_are_left_alone(text: str, other: str) -> None:
    assert compare(unit("a", text), unit("b", other), NEAR, never_same) is None
    assert compare(unit("a", other), unit("b", text), NEAR, never_same) is None
