"""English words that carry no topic: in a question they match every sentence, so they must not rank any.

A short list of our own: determiners, pronouns, prepositions, conjunctions, auxiliaries, question words. "May" is left
out, because as a month it is what a question asks for. Words that end in n't are auxiliaries by their form.
"""

from __future__ import annotations

_WORDS = """
a an the this that these those some any each every either neither both all such no not only own same other
i me my mine myself you your yours yourself he him his himself she her hers herself it its itself
we us our ours ourselves they them their theirs themselves one ones
of in on at by for with from to into onto upon about as than over under above below between among within without
through during before after since until against toward towards per via up down out off
and or but nor so yet if then else because while although though unless whether
be am is are was were been being do does did doing done have has had having
will would shall should can could might must cannot
what which who whom whose when where why how there here
very too also just ever still again more most much many few
"""
FUNCTION_WORDS = frozenset(_WORDS.split())
CLITICS = frozenset({"s", "t", "d", "m", "ll", "re", "ve"})
"""What may follow an apostrophe at the end of a word without being one."""
