import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

/** What a service does with its dialogs. All of it is part of the transaction of the step, and nothing else may be. */
interface Application {
    /**
     * A message in its turn.
     *
     * @throws IllegalArgumentException the body does not fit its type. Nothing has been asked for.
     */
    void message(Turn turn, String type, JsonNode body);

    /** The peer has ended the dialog. */
    void ended(Turn turn);

    /** The dialog is broken, by an error of the peer or of this side. */
    void broken(Turn turn, int code, String description);

    /** What the application may ask for while it handles something of a dialog. */
    interface Turn {
        String conversation();

        ObjectNode state();

        /** Sends a message on the dialog. */
        void send(String type, JsonNode body);

        /** Appends a record to another topic. */
        void append(String topic, String key, String value);
    }
}
