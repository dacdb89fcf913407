"""Differences that are meant, each with its reason."""
import base64

VALIDATION = "ValidationException"
CANCELLED = "TransactionCanceledException"
CONDITION = "ConditionalCheckFailedException"

# What an update makes of an item that it does not fit.
OF_ITEM = ["The document path provided in the update expression is invalid for update",
           "The provided expression refers to an attribute that does not exist in the item",
           "An operand in the update expression has an incorrect data type",
           "DynamoDB only supports precision up to 38 digits", "Number overflow", "Number underflow",
           "Type mismatch", "Item size", "empty string value", "Invalid attribute value type"]
SCALARS = "Key attributes must be scalars"
ONLY_TAKES = "they make an item by an update that only takes away"
OTHER_TYPE = "they let an update of an item that is not there give a key of an index another type"
TWICE = "they take some transactions that have one item twice"
PLACEHOLDERS = ("ExpressionAttributeNames can only be", "ExpressionAttributeValues can only be")

# Without the key of a start both have the same items.
OTHER_ORDER = "a scan that starts after a key goes on in an order that is not theirs"
# Asked for without a limit they have them all.
LOST_BETWEEN_PAGES = "they lose items between pages where several have the same key of an index"


def reason(operation, request, ours, theirs, index):
    """Why the answers differ, if that is known. `index`: that which is read, if any."""
    we, they = (it.failed.error if it.failed else None for it in (ours, theirs))
    text, their_text = (it.failed.message or "" if it.failed else "" for it in (ours, theirs))
    if we == VALIDATION and they in (CONDITION, CANCELLED):
        return of_request(request, text)
    if we == CANCELLED and they == VALIDATION and any(it in their_text for it in OF_ITEM):
        return "a part of a transaction that cannot be made is a reason, as the service has it"
    if we == CANCELLED and they in (None, CANCELLED) and are_of_other_type(ours, theirs):
        return OTHER_TYPE
    if we == VALIDATION and they is None:
        return let(operation, request, text)
    if we is None and their_text.startswith("Updates on index keys must be of the same data type"):
        return "they look at what DELETE takes from a key of an index, which has no sets to take from"
    if we is None and "if_not_exists" in str(request) and their_text.endswith(
            "refers to an attribute that does not exist in the item"):
        return "they want the default of if_not_exists to be there where it is not needed"
    if we is None and they is None:
        return of_answers(operation, request, (ours, theirs), index)
    return None


def are_of_other_type(ours, theirs):
    """Whether a transaction was cancelled, or for more reasons than theirs, because of types of keys of
    indexes alone."""
    reasons = ours.failed.body.get("CancellationReasons", [])
    given = theirs.failed.body.get("CancellationReasons", []) if theirs.failed else []
    given = [it.get("Code") for it in given] or ["None"] * len(reasons)
    more = [ours for ours, theirs in zip(reasons, given) if ours.get("Code") != theirs]
    return len(given) == len(reasons) and more != [] and all(
        it.get("Code") == "ValidationError" and "Type mismatch for key" in it.get("Message", "")
        for it in more)


def of_request(request, text):
    """Why they have judged conditions of a request that is wrong in itself."""
    if text.startswith(SCALARS) and "ConditionCheck" in str(request):
        return "they do not look at the paths of ConditionCheck"
    if text.startswith("Transaction request cannot include multiple operations"):
        return TWICE
    if text.startswith("Can not use both expression and non-expression"):
        return "they do not look at old parameters of other operations"
    if "is not supported for the type" in text or "Cannot update attribute" in text \
            or text.startswith((SCALARS, *PLACEHOLDERS)):
        return "what is wrong with the request itself is told before its condition is looked at"
    return None


def let(operation, request, text):
    """Why they do what we refuse."""
    if text.startswith("Transaction request cannot include multiple operations"):
        return TWICE
    if text.startswith(SCALARS) and "ConditionCheck" in str(request):
        return "they do not look at the paths of ConditionCheck"
    if text.startswith("Can not use both expression and non-expression"):
        return "they do not look at old parameters of other operations"
    if operation == "UpdateItem" and "38 significant digits" in text:
        return "they add more than 38 digits by AttributeUpdates"
    if operation == "UpdateItem" and "Type mismatch for key" in text:
        return OTHER_TYPE
    if operation == "GetItem" and "ExpressionAttribute" in text:
        return "they do not look at placeholders of GetItem that nothing uses"
    if text.startswith(PLACEHOLDERS) and "{}" in str(request):
        return "they let empty placeholders be beside old parameters"
    return None


def of_answers(operation, request, both, index):
    """Why both answer, but not the same."""
    ours, theirs = both
    if operation == "Scan" and index and index.projection["ProjectionType"] != "ALL" \
            and ("FilterExpression" in request or "ScanFilter" in request):
        return "their filters of an index see attributes that it does not project"
    if operation == "UpdateItem" and request.get("ReturnValues") == "ALL_NEW" and not ours.pages[0]:
        return ONLY_TAKES
    if request.get("ReturnValues") in ("UPDATED_OLD", "UPDATED_NEW") and is_part(
            ours.pages[0].get("Attributes", {}), theirs.pages[0].get("Attributes", {})):
        return "they show more of a value than the update has changed"
    if operation in ("Query", "Scan") and are_among(ours, theirs, no_texts(request)):
        return "they take bytes that are no UTF-8 for equal where one value is looked for in another"
    return None


def no_texts(request):
    """Bytes that a filter wants values to contain, and that are no text."""
    if "contains" not in request.get("FilterExpression", "") and "'CONTAINS'" not in str(request):
        return []
    given = [*request.get("ExpressionAttributeValues", {}).values(),
             *(value for asked in request.get("ScanFilter", request.get("QueryFilter", {})).values()
               for value in asked.get("AttributeValueList", []))]
    blobs = [base64.b64decode(value["B"]) for value in given if "B" in value]
    return [blob for blob in blobs if blob.decode(errors="ignore").encode() != blob]


def are_among(ours, theirs, blobs):
    """Whether they show all items that we show, and others, that have none of these bytes."""
    ours, theirs = ([item for page in it.pages for item in page.get("Items", [])]
                    for it in (ours, theirs))
    more = [item for item in theirs if item not in ours]
    return blobs != [] and more != [] and all(item in theirs for item in ours) and not any(
        has_bytes({"M": item}, blob) for item in more for blob in blobs)


def has_bytes(value, blob):
    """Whether a value has them, at any depth."""
    (kind, part), = value.items()
    match kind:
        case "B" | "BS":
            texts = [part] if kind == "B" else part
            return any(blob in base64.b64decode(text) for text in texts)
        case "M":
            return any(has_bytes(inner, blob) for inner in part.values())
        case "L":
            return any(has_bytes(inner, blob) for inner in part)
    return False


def is_part(some, whole):
    """Whether a value is another one of which parts are left out."""
    if isinstance(some, dict) and isinstance(whole, dict):
        return all(name in whole and is_part(part, whole[name]) for name, part in some.items())
    if isinstance(some, list) and isinstance(whole, list):
        rest = iter(whole)
        return all(any(is_part(part, other) for other in rest) for part in some)
    return some == whole


def written(operation, request, ours, theirs):
    """Why the items differ after a write, if that is known."""
    has, have = (it.pages and "Item" in it.pages[0] for it in (ours, theirs))
    if operation in ("UpdateItem", "TransactWriteItems") and have and not has:
        if set(theirs.pages[0]["Item"]) <= {"p", "c"}:
            return ONLY_TAKES
    return None
