import com.fasterxml.jackson.annotation.JsonAutoDetect;
import com.fasterxml.jackson.annotation.JsonAutoDetect.Visibility;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.util.TreeMap;
import java.util.TreeSet;

/** What a service keeps about its side of one dialog, or the tombstone of it. A row of the state topic has it as JSON. */
@JsonAutoDetect(fieldVisibility = Visibility.ANY)
final class Dialog {
    static final ObjectMapper JSON = new ObjectMapper();
    private static final long FAR = 2_000;

    /** A record that arrived before an earlier one. */
    static final class Held {
        public long offset;
        public byte[] value;
    }

    byte[] conversation;
    String contract;
    String peer;
    String key;
    String peerKey;
    long acceptUntil;
    long expiresAt;
    /** Last accepted number of the peer. */
    long accepted = Envelope.NONE;
    /** Last number that the peer has been told. */
    long told = Envelope.NONE;
    /** Last number of this side. */
    long sent = Envelope.NONE;
    /** When the oldest gap was seen; 0 if no number is missing. */
    long gapSince;
    boolean over;
    /** Log time at which a tombstone is not needed any more. */
    long forgetAt;
    /** Numbers up to {@code accepted} that were passed over and have not arrived. */
    TreeSet<Long> missing = new TreeSet<>();
    TreeMap<Long, Held> held = new TreeMap<>();
    /** State of the application. */
    JsonNode state = JSON.createObjectNode();

    byte[] row() {
        try {
            return JSON.writeValueAsBytes(this);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    static Dialog read(byte[] row) {
        try {
            return JSON.readValue(row, Dialog.class);
        } catch (IOException error) {
            throw new IllegalStateException(error);
        }
    }

    ObjectNode applicationState() {
        return (ObjectNode) state;
    }

    /**
     * Accounts for a number of a dialog that is over; returns false if it arrived before.
     *
     * <p>The numbers that are passed over are remembered, so that each of them counts once. A number far ahead is not credible: it is not
     * remembered, and counts each time.
     */
    boolean isFirst(long number) {
        if (missing.remove(number)) {
            return true;
        }
        if (number <= accepted) {
            return false;
        }
        if (number - accepted + missing.size() <= FAR) {
            for (long between = accepted + 1; between < number; between++) {
                missing.add(between);
            }
            accepted = number;
        }
        return true;
    }
}
