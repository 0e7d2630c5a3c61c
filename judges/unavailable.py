"""Whether an answer says that what was asked for is not to be had: all that counts on unanswerable questions."""

from __future__ import annotations

import re

_NOT = r"(?:not|never|cannot|cant|couldnt|isnt|wasnt|arent|werent|hasnt|havent|hadnt|doesnt|didnt|dont)"
_CANNOT = r"(?:cannot|cant|can not|could not|couldnt|unable to|not able to|impossible to|not possible to|no way to)"
_FACT = r"(?:information|info|mention|details?|data|records?|context|indication)"
_TOLD = r"(?:mention(?:ed)?|provided?|specif(?:y|ied)|stated|disclosed?|recorded|given|indicated?|discussed)"
_FIND_OUT = r"(?:determined?|answer(?:ed)?|tell|know|known|infer(?:red)?|identif(?:y|ied)|confirm(?:ed)?|say)"

_PHRASES = (
    rf"\b{_NOT} (?!only)(?:\w+ ){{0,2}}{_TOLD}\b",
    rf"\b{_NOT} (?:tell|told|say|said|shared?) (?:me|us|that|this|it|so|anything|which|what|when|where|who|how)\b",
    rf"\bno (?:\w+ )?(?:{_FACT}|memory|recollection|knowledge)\b",
    rf"\b(?:not enough|insufficient|lack(?:s|ing)?(?: of)?|without (?:enough|sufficient)) (?:\w+ )?{_FACT}\b",
    rf"\b{_CANNOT} (?:be )?(?:\w+ly )?{_FIND_OUT}\b",
    rf"\b(?:{_CANNOT}|did not|didnt|do not|dont) (?:find|locate|see) (?:\w+ ){{0,2}}(?:{_FACT}|answer|reference)\b",
    r"\b(?:i|we) (?:do not|dont) (?:\w+ )?know\b",
    rf"\b(?:i|we) (?:do not|dont|did not|didnt) (?:\w+ )?have (?:\w+ )?{_FACT}\b",
    rf"\b{_FACT} (?:\w+ )?(?:is|are|was|were) (?:\w+ )?(?:unavailable|not available|missing|absent|unknown)\b",
    rf"\b{_FACT} (?:\w+ )?(?:isnt|arent|wasnt|werent) (?:\w+ )?available\b",
    r"\b(?:is|are|was|were|remains?|answer) (?:unknown|not known|unanswerable|unspecified|undisclosed)\b",
    r"^(?:unknown|unanswerable|unspecified|unavailable|not (?:available|known)|n a|no answer)$",
)
_UNAVAILABLE = re.compile("|".join(_PHRASES))


def states_unavailable(answer: str) -> bool:
    """Whether the answer states that the information is unavailable. English; a list of phrases, not understanding."""
    text = re.sub(r"['’ʼ]", "", answer.lower())
    text = " ".join(re.sub(r"[^\w\s]", " ", text).split())
    return _UNAVAILABLE.search(text) is not None
