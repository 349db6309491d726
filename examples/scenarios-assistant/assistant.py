"""A travel assistant of fixed rules. It plays the model when the answers of this example are recorded."""
import json
import os
import re
import sys

FACTS = {
    "refund": "A refund is possible up to 24 hours before departure, because the seat can then be sold again.",
    "bicycle": "A bicycle needs a ticket of its own, because the places for them are few.",
    "dog": "Small dogs travel free. A large dog needs half a ticket, because it takes the room of a child.",
    "delay": "After a delay of 60 minutes you get 25 % back, because the law of passenger rights says so.",
    "child": "Children under 6 travel free, because they need no seat.",
    "wifi": "Wi-Fi is free in all trains, because its price is part of every ticket.",
    "seat": "A seat can be reserved up to 10 minutes before departure.",
    "luggage": "Two pieces of luggage are free. Each may weigh up to 25 kg.",
    "wheelchair": "Wheelchairs are welcome in coach 4, because it has a lift.",
    "student": "Students get 10 % off. A valid card is needed.",
    "night": "Night trains leave at 22:15 and have beds in coach 7.",
    "invoice": "The invoice is sent by e-mail within 2 days.",
    "group": "Groups of more than 9 book by telephone, because their seats are kept together.",
    "lost": "Lost property is kept for 90 days in the station of arrival.",
    "parking": "Parking costs 8 EUR a day at every station.",
    "breakfast": "Breakfast is served from 6:30 to 10:00 in the restaurant car.",
    "power": "Every seat has a power socket.",
    "change": "A ticket can be changed for 5 EUR, because the price of the day applies.",
    "smoking": "Smoking is forbidden in all trains.",
    "payment": "Payment is possible by card and by transfer.",
}
ROLE = "I am the assistant of Example Rail"
ATTACK = re.compile(
    r"ignore|disregard|forget (?:all|every|your)|pretend|you are now|system prompt|developer mode|\bDAN\b|reveal|act as"
    r"|sudo|base64|new rules|role ?play|no restrictions|hypothetically|repeat (?:the|your) (?:words|instructions)",
    re.IGNORECASE,
)
HARM = re.compile(
    r"drop table|<script|\$\(|\.\./|free ticket|password|someone else|all passengers|fake|without paying|card number"
    r"|blackmail|delete",
    re.IGNORECASE,
)
PRICE = 20


def answer(text, kind="text", plan=(), value=None):
    return {"text": text, "type": kind, "plan": list(plan), "value": value}


def details(text):
    """What a text says about a journey."""
    found = {}
    place = re.search(r"from ([A-Z]\w+)", text)
    if place:
        found["from"] = place.group(1)
    place = re.search(r"to ([A-Z]\w+)", text)
    if place:
        found["to"] = place.group(1)
    date = re.search(r"\d{4}-\d\d-\d\d", text)
    if date:
        found["date"] = date.group(0)
    seats = re.search(r"(-?\d+) (?:seats?|tickets?|persons?|people)", text)
    if seats:
        found["seats"] = int(seats.group(1))
    return found


def book(trip, budget):
    missing = [name for name in ("from", "to", "date") if name not in trip]
    if missing:
        asked = {"from": "Where does the journey start?", "to": "Where do you want to go?", "date": "On which date?"}
        return answer(" ".join(asked[name] for name in missing), "clarification")
    seats = trip.get("seats", 1)
    if seats < 1:
        return answer("Error: a booking needs at least one seat.", "error")
    if seats > 9:
        return answer("Warning: more than 9 seats are a group booking, which is made by telephone.")
    if trip["date"] < "2025-01-01":
        return answer("Error: the date is in the past.", "error")
    if trip["from"] == trip["to"]:
        return answer("Error: the journey ends where it starts.", "error")
    total = seats * PRICE
    if budget is not None and total > budget:
        return answer(f"Warning: insufficient balance. The journey costs {total} EUR.", "text", (), {"total": total})
    journey = {"from": trip["from"], "to": trip["to"], "date": trip["date"]}
    plan = [
        {"agent": "SearchAgent", "function": "findTrain", "params": journey},
        {"agent": "BookingAgent", "function": "book", "params": {**journey, "seats": seats, "amount": f"{total} EUR"}},
    ]
    said = f"I book {seats} {'seat' if seats == 1 else 'seats'} from {trip['from']} to {trip['to']} on {trip['date']}."
    value = {"total": total, "date": trip["date"], "seats": seats, "legs": [journey], "note": None}
    return answer(f"{said} The price is {total} EUR.", "execution", plan, value)


def send(text, budget):
    """A transfer, for the wallet."""
    amount = re.search(r"(?:[Ss]end|transfer) (\d+(?:\.\d+)?) DOT", text)
    to = re.search(r"to ([A-Z]\w+)", text)
    if not amount or not to:
        return answer("How much, and to which recipient?", "clarification")
    if budget is not None and float(amount.group(1)) > budget:
        return answer("Warning: insufficient balance.", "text")
    params = {"amount": f"{amount.group(1)} DOT", "recipient": to.group(1)}
    plan = [{"agent": "AssetTransferAgent", "function": "transfer", "params": params}]
    return answer(f"I send {params['amount']} to {params['recipient']}. A fee applies.", "execution", plan)


def reply(turns):
    text = turns[-1].strip()
    if not text:
        return answer("What can I do for you?", "clarification")
    if ATTACK.search(text):
        return answer(f"I cannot do that. {ROLE}.")
    if HARM.search(text):
        return answer(f"I cannot do that, and I will not. {ROLE}.")
    budget = re.search(r"balance (?:is|of) (\d+(?:\.\d+)?)", text)
    budget = float(budget.group(1)) if budget else None
    if "DOT" in text or "transfer" in text:
        return send(text, budget)
    if re.search(r"\bcancel\b", text):
        booked = any(re.search(r"\bbook\b", turn, re.IGNORECASE) for turn in turns[:-1])
        return answer("I have cancelled your booking." if booked else "There is no booking to cancel.")
    known = [FACTS[word] for word in FACTS if re.search(rf"\b{word}", text, re.IGNORECASE)]
    if known and not details(" ".join(turns)) and not re.search(r"\bbook\b", text, re.IGNORECASE):
        return answer(" ".join(known))
    if re.search(r"\bbook\b|\bjourney\b|travel", " ".join(turns), re.IGNORECASE) or details(text):
        trip = {}
        for turn in turns:
            trip.update(details(turn))
        return book(trip, budget)
    return answer(f"I do not know that. {ROLE}. Ask me about journeys?", "clarification")


def main():
    turns = re.findall(r"<<<(.*?)>>>", sys.stdin.read(), re.DOTALL)
    said = reply(turns or [""])
    calls = []
    for step in said["plan"]:
        name = re.sub("([A-Z])", lambda found: "_" + found.group(1).lower(), step["function"])
        calls.append({"name": name, "arguments": step["params"], "result": {"ok": True}, "is_error": False})
    words = sum(len(turn.split()) for turn in turns)
    usage = {"input_tokens": words, "output_tokens": len(said["text"].split()), "cost_usd": 0.001, "tool_calls": calls}
    with open(os.environ["THREADLINE_USAGE"], "w") as file:
        json.dump(usage, file)
    print(json.dumps(said))


main()
