"""Beside the rules: phrases that mislead them, words of scripts without spaces, and the words of domains."""

import re
from typing import Final

from schemas.intent import Purpose

MASKS: Final = tuple(
    re.compile(rf"(?<!\w)(?:{phrase})(?!\w)")
    for phrase in (
        r"(?:issue|bug|error) (?:tracker|tracking|template|budget|message style)s?",
        r"(?:dependency|constructor|setter) injection",
        r"standard (?:library|libraries|input|output|error|deviation|edition)",
        r"design (?:system|team|tokens?|files?|agency)",
        (
            r"(?:review|security|policy|architecture|design|onboarding|debugging) (?:team|channel|meeting"
            r"|room|board|lead|budget)s?"
        ),
        r"(?:quality|security) (?:assurance|guards?)",
        r"fixed[- ](?:width|price|point|size|income)",
        r"reviews? (?:page|app|score|widget)s?",
        r"(?:product|customer|star|app store) reviews?",
        r"rule of thumb|as a rule",
        r"bug bash(?:es)?",
        r"how (?:many|much|long|often|old|far|big|large)",
        r"exception to (?:the|this|that|our)",
    )
)
"""Phrases whose words would mislead; they are taken out before the rules look."""

CJK_RULES: Final = (
    (Purpose.DEBUGGING, 3.0, re.compile("障害|エラー|不具合|バグ|错误|故障|崩溃|报错|失败|失敗|오류|장애")),
    (Purpose.ARCHITECTURE, 3.0, re.compile("設計|アーキテクチャ|架构|架構|设计|比較|比较|설계")),
    (Purpose.ONBOARDING, 3.0, re.compile("概要|入門|とは何|说明|解释|介绍|介紹|소개")),
    (Purpose.POLICY, 3.0, re.compile("規定|規則|ポリシー|规定|规则|政策|合规|정책|규정")),
    (Purpose.HOW_TO, 3.0, re.compile("方法|手順|やり方|どうやって|怎么|如何|步骤|방법")),
    (Purpose.REVIEW, 3.0, re.compile("レビュー|改善|评审|审查|改进|리뷰")),
    (Purpose.SECURITY, 3.0, re.compile("脆弱性|セキュリティ|漏洞|安全|攻撃|攻击|보안")),
)
"""Scripts without spaces have no word boundaries: these are matched anywhere."""

DOMAINS: Final = tuple(
    (name, re.compile(rf"(?<!\w)(?:{pattern})(?!\w)"))
    for name, pattern in (
        (
            "data",
            (
                r"databases?|postgres\w*|mysql|sqlite|redis|kafka|quer(?:y|ies)|schemas?|tables?|warehouse"
                r"|backups?|index(?:es)?"
            ),
        ),
        ("delivery", r"deploy\w*|releases?|ci|pipelines?|builds?|rollbacks?|docker|kubernetes|k8s|helm|terraform"),
        ("operations", r"on-?call|alerts?|incidents?|outages?|monitoring|dashboards?|latency|logs?|metrics"),
        ("identity", r"auth|authenticat\w+|authori[sz]\w+|oauth|sso|logins?|passwords?|jwts?|tokens?"),
        ("interface", r"frontend|ui|css|react|pages?|screens?|browsers?|accessibility"),
        ("services", r"apis?|endpoints?|grpc|rest|graphql|webhooks?|microservices?|gateways?"),
        ("people", r"teams?|hiring|vacation|onboarding|managers?|colleagues?|travel|expenses?"),
        ("testing", r"tests?|fixtures?|coverage|mocks?|flaky"),
    )
)

FAILING: Final = (
    r"(?:not|n't|cannot|never|no longer|nothing|stop(?:s|ped)|refus(?:es|ed) to|unable to|cant|wont|doesnt)"
)
WORKING: Final = (
    r"(?:(?:work|respond|start|load|connect|return|sync|build|deploy|run|show|open|render|send|happen|finish|compil"
    r"|complet|updat|arriv|receiv|sav)(?:e|s|es|ed|ing|ning)?|log in)"
)
"""What should happen and does not: a word of each in this order."""
