import com.fasterxml.jackson.databind.JsonNode;

/** Echoes each number, and writes what it has handled to the topic {@code <namespace>.handled}. */
public final class CountingService implements Application {
    private final String handled;

    private CountingService(String namespace) {
        handled = namespace + ".handled";
    }

    public static void main(String[] arguments) {
        new Service(arguments[0], new Topics(arguments[1]), "sink", "one", new CountingService(arguments[1])).run();
    }

    @Override
    public void message(Turn turn, String type, JsonNode body) {
        if (type.equals("Number")) {
            String number = required(body, "n");
            required(body, "of");
            turn.send("Echo", body);
            note(turn, number);
        } else {
            note(turn, "total " + required(body, "count"));
        }
    }

    private static String required(JsonNode body, String field) {
        if (!body.path(field).isIntegralNumber()) {
            throw new IllegalArgumentException(field + " is not a whole number");
        }
        return body.get(field).asText();
    }

    @Override
    public void ended(Turn turn) {
        note(turn, "end");
    }

    @Override
    public void broken(Turn turn, int code, String description) {
        note(turn, "error " + code + " " + description);
    }

    /** Numbers what is handled on the dialog, so that the state must survive together with the records. */
    private void note(Turn turn, String what) {
        int at = turn.state().path("handled").asInt();
        turn.state().put("handled", at + 1);
        turn.append(handled, turn.conversation(), at + " " + what);
    }
}
