"""Exemplar questions of tier 2: how people ask for each purpose when they use none of its words."""

from collections.abc import Mapping
from typing import Final

from schemas.intent import Purpose

EXEMPLARS: Final[Mapping[Purpose, tuple[str, ...]]] = {
    Purpose.DEBUGGING: (
        "The shopping list is blank although items were added",
        "The nightly job has produced nothing since Tuesday",
        "Messages pile up in the queue and nobody consumes them",
        "Users are logged out every few minutes",
        "The service keeps restarting after the last deployment",
        "Numbers in the dashboard do not add up",
    ),
    Purpose.ARCHITECTURE: (
        "Which database suits the ledger best?",
        "What speaks for keeping orders and payments in one service?",
        "Ought these two modules to live in one repository?",
        "How do the services depend on each other?",
        "Is an event log or a relational store the better choice here?",
        "What were the grounds for leaving the old message broker?",
    ),
    Purpose.ONBOARDING: (
        "I have never worked with this system, where do I begin?",
        "What should someone know before touching the billing code?",
        "Give me the short story of what this team does",
        "What is this service there for?",
        "Help me make sense of the payment platform",
        "Which parts does the product consist of?",
    ),
    Purpose.POLICY: (
        "Am I free to take customer data home on my laptop?",
        "After what time may old contracts be shredded?",
        "Who has to agree before a contract is signed?",
        "Do contractors get access to production?",
        "Is it fine to use personal phones for work mail?",
        "What does the company expect of people who work from abroad?",
    ),
    Purpose.HOW_TO: (
        "What do I type to start the service on my machine?",
        "I want to give a colleague access to the staging cluster",
        "Getting a new certificate onto the load balancer",
        "Which script creates the test data?",
        "Moving a customer to another region, one thing after the other",
        "Make the client retry requests",
    ),
    Purpose.REVIEW: (
        "Would you write this function differently?",
        "Tell me honestly whether my proposal holds up",
        "Could this query be shorter?",
        "Does our code follow the house style here?",
        "What would make this document easier to read?",
        "Check my draft before I send it out",
    ),
    Purpose.SECURITY: (
        "Could somebody from outside read other customers' invoices?",
        "What happens if a laptop with our keys is lost?",
        "Someone tried thousands of logins last night",
        "Who can see the production secrets?",
        "Is user input checked before it reaches the database?",
        "A stranger got into an employee's mailbox",
    ),
    Purpose.GENERAL: (
        "Who is responsible for the mobile app?",
        "When is the next release?",
        "Which version of the database do we run?",
        "What did Ana say about the offsite?",
        "Where is the office in Lisbon?",
        "How many customers do we have?",
    ),
}
