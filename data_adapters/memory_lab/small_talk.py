"""Rounds that tell no fact: (what the user says, what the assistant replies).

They speak of the same things as the facts (dogs, flats, tea, locks, visits), so that a retriever which matches words
has something to be wrong about, and hold no value of any pool.
"""

from __future__ import annotations

ROUNDS: tuple[tuple[str, str], ...] = (
    (
        "It rained all morning and I forgot to close the window in the kitchen.",
        "A towel on the sill helps for now. Leave the window open later so that the wood can dry.",
    ),
    (
        "A strange dog followed me home from the bus stop today.",
        "It may be lost. A vet can read its chip, and a note at the bus stop might help too.",
    ),
    (
        "How often should a cat be brushed? A friend asked me and I had no idea.",
        "Once a week is enough for short hair. Long hair needs a few minutes every day.",
    ),
    (
        "My street is noisy again because they are mending the pipes.",
        "Ear plugs are cheap and work well. The work should be over in a few days.",
    ),
    (
        "I want to drink less coffee. Is tea a good way to start?",
        "It is. Swap one cup a day for tea in the first week, then a second cup in the next.",
    ),
    (
        "Somebody tried to open the lock of the shed last night.",
        "Was anything taken? A lamp with a sensor keeps most people away from a shed.",
    ),
    (
        "I visited nobody this weekend and it was wonderful.",
        "A quiet weekend is a gift. I hope you found time to read or sleep.",
    ),
    (
        "Our team at work has too many meetings and nobody takes notes.",
        "Ask for one meeting less a week, and let a different person take the notes each time.",
    ),
    (
        "Which is harder for a beginner, a string instrument or a wind instrument?",
        "It depends on the teacher. Most people play a simple tune within two months on either.",
    ),
    (
        "I keep forgetting new words in my language class.",
        "Say them aloud on a walk, five a day, and use each in a sentence about your own life.",
    ),
    (
        "The cook at the corner place let the soup burn and still charged us for it.",
        "That is cheeky. You could ask for the money back, or for a free dessert next time.",
    ),
    (
        "Is it normal that my knees hurt after sport?",
        "A little, when you are new to it. Warm up for ten minutes and rest for a day between sessions.",
    ),
    (
        "I painted the bathroom door and the colour looks wrong in the evening.",
        "Lamps change a colour a lot. Look at it at noon before you paint it again.",
    ),
    (
        "The train to the next town was late for the third time this month.",
        "You can claim part of the fare when a train is more than an hour late. Keep the ticket.",
    ),
    (
        "Snails have eaten everything in the vegetable bed of my neighbour.",
        "Rough sand around the bed helps, and so does picking them off after dark.",
    ),
    (
        "I fell asleep over my book again and lost the page.",
        "A strip of paper is all you need. Or read two pages aloud, that keeps one awake.",
    ),
    (
        "What should I bring when a colleague invites me for dinner?",
        "Flowers or something sweet. Ask first whether there is anything that they do not eat.",
    ),
    (
        "My phone says that it is full, and I cannot take any photos.",
        "Delete old videos first, they take the most room. Then move your photos to a disk.",
    ),
    (
        "I have a cold and cannot smell anything.",
        "Rest, drink something warm and air the room. It should pass within a week.",
    ),
    (
        "The meeting on Friday was moved to Monday and nobody told me.",
        "That is annoying. A shared calendar would have sent you a message about the new date.",
    ),
    (
        "How do I get candle wax out of a table cloth?",
        "Let it harden and scrape it off. Then iron the spot through two sheets of kitchen paper.",
    ),
    (
        "I can hear mice behind the wall at night.",
        "Look for small holes near the pipes and fill them. Keep bread and cereal in closed boxes.",
    ),
    (
        "I would like to walk more, but the evenings are so dark now.",
        "Walk at noon, even if it is only around the block. Ten minutes count too.",
    ),
    (
        "A friend of mine cannot decide what to call the new horse.",
        "A short name is best. Let your friend try three of them and see which one the horse hears.",
    ),
    (
        "The lift in our house is broken and I live on the top floor.",
        "That is good exercise, but call the owner. A broken lift must be mended soon.",
    ),
    (
        "Do you think that it is rude to leave a party early?",
        "Not at all. Thank the person who invited you and say that you enjoyed it.",
    ),
    (
        "I lost one glove on the way to work.",
        "Try the lost property desk. Many people hand in single gloves at this time of the year.",
    ),
    (
        "My neighbour practises the same song every night until ten.",
        "Ten is the limit in most houses. Ask kindly whether the song could be played earlier.",
    ),
    (
        "How do I choose a good melon at the market?",
        "Lift it: it should be heavy for its size and smell sweet at the stem.",
    ),
    (
        "I spilled ink on the carpet and rubbed it, which made it worse.",
        "Do not rub it. Press a wet cloth on the spot, then a dry one, and repeat.",
    ),
    (
        "My favourite mug broke this morning when I washed it.",
        "What a pity. Glue will hold it together, but use it for pens and not for hot drinks.",
    ),
    (
        "The new flat next door is still empty and the light is on all night.",
        "Perhaps it is on a timer. You could tell the owner of the flat about it.",
    ),
    (
        "I need a present for a child who has everything.",
        "Give time and not a thing: a day out, a ride on a steam train, or an hour of baking.",
    ),
    (
        "I burnt the rice again. What am I doing wrong?",
        "The heat is too high. Boil it once, put the lid on and let it stand on the lowest heat.",
    ),
    (
        "Our bicycle shed is so full that I cannot get my bicycle out.",
        "Ask the owner to clear the old ones. Most sheds are half full of bicycles that nobody rides.",
    ),
    (
        "I could not sleep because of the full moon.",
        "A darker curtain may help, and no screen in the hour before you go to bed.",
    ),
    (
        "Is a guided tour worth the money, or should I visit a city alone?",
        "A tour on the first day shows you where things are. After that, walk on your own.",
    ),
    (
        "The post brought a parcel for somebody who does not live here.",
        "Write the word unknown on it and give it back. It costs you nothing.",
    ),
    (
        "I have been asked to give a speech and I am nervous.",
        "Learn the first sentence by heart. The rest comes more easily once you have begun.",
    ),
    (
        "My plants turn yellow although I water them every day.",
        "That may be too much water. Wait until the soil is dry to the touch.",
    ),
    (
        "What is a good way to remember the birthdays of my friends?",
        "Write them all on one sheet and hang it beside the door. Look at it every Sunday.",
    ),
    (
        "I watched a film on Saturday and understood nothing.",
        "Some films need a second evening. Read a short summary before you watch it again.",
    ),
    (
        "The shop gave me the wrong change and I only saw it at home.",
        "Go back with the receipt. Most shops count the till in the evening and will see it.",
    ),
    (
        "My back hurts when I sit at the desk for a long time.",
        "Stand up every half hour and put the screen a little higher, level with your eyes.",
    ),
)
