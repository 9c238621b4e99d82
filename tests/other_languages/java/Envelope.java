import java.util.Arrays;
import java.util.List;
import java.util.UUID;

/** One record of a queue topic, in the schema envelope.v1. */
record Envelope(
        byte[] conversation, boolean fromInitiator, String contract, String fromService, String toService, String replyKey,
        long acceptUntil, long expiresAt, Kind kind, long seq, long ack, long transmitted, List<Long> skipped, long sentAt,
        String messageType, int code, String description, String contentType, byte[] body, byte[] value) {

    enum Kind { MESSAGE, END, ERROR, ACK, RESEND, FENCE, FENCED }

    static final long NONE = -1;
    private static final byte[] HEAD = Avro.head("f9c14e18d3f5b568");
    private static final int MOST_SKIPPED = 100;
    private static final byte[] NOTHING = {};

    /** The fields that all envelopes of one side of a dialog have in common. */
    record Prefix(byte[] conversation, boolean fromInitiator, String contract, String fromService, String toService,
            String replyKey, long acceptUntil, long expiresAt) {}

    static Envelope message(Prefix prefix, long seq, long ack, long now, String type, String contentType, byte[] body) {
        return write(prefix, Kind.MESSAGE, seq, ack, NONE, now, type, 0, "", contentType, body);
    }

    static Envelope ack(Prefix prefix, long ack, long now) {
        return write(prefix, Kind.ACK, NONE, ack, NONE, now, "", 0, "", "", NOTHING);
    }

    /** An ERROR of the system, which has no number. */
    static Envelope error(Prefix prefix, long ack, long transmitted, long now, int code, String description) {
        return write(prefix, Kind.ERROR, NONE, ack, transmitted, now, "", code, description, "", NOTHING);
    }

    private static Envelope write(Prefix prefix, Kind kind, long seq, long ack, long transmitted, long now, String type, int code,
            String description, String contentType, byte[] body) {
        Avro.Writer out = new Avro.Writer().fixed(HEAD).fixed(prefix.conversation).flag(prefix.fromInitiator).text(prefix.contract)
                .text(prefix.fromService).text(prefix.toService).text(prefix.replyKey).flag(false).number(prefix.acceptUntil)
                .number(prefix.expiresAt);
        out.number(kind.ordinal()).number(seq).number(ack).number(transmitted).number(0).number(now).text(type).number(code).text(description).number(0).number(1)
                .text(contentType).bytes(body).number(0);
        byte[] value = out.done();
        return new Envelope(prefix.conversation, prefix.fromInitiator, prefix.contract, prefix.fromService, prefix.toService,
                prefix.replyKey, prefix.acceptUntil, prefix.expiresAt, kind, seq, ack, transmitted, List.of(), now, type, code,
                description, contentType, body, value);
    }

    /** Decodes a record, and checks the fields that belong together. */
    static Envelope read(byte[] value) throws Avro.Broken {
        Avro.Reader in = new Avro.Reader(value);
        if (!Arrays.equals(in.fixed(HEAD.length), HEAD)) {
            throw new Avro.Broken("the bytes are not an envelope of a known schema");
        }
        Prefix prefix = new Prefix(in.fixed(16), in.flag(), in.text(), in.text(), in.text(), in.text(), longAfterFlag(in), in.number());
        Kind kind = kind(in.small());
        long seq = in.number();
        long ack = in.number();
        long transmitted = in.number();
        List<Long> skipped = in.numbers(MOST_SKIPPED);
        long sentAt = in.number();
        String type = in.text();
        int code = in.small();
        String description = in.text();
        in.small(); // fragment is reserved
        int fragments = in.small();
        String contentType = in.text();
        byte[] body = in.bytes();
        if (fragments != 1 || in.small() != 0) {
            throw new Avro.Broken("neither fragments nor extras are supported");
        }
        in.end();
        Envelope found = new Envelope(prefix.conversation, prefix.fromInitiator, prefix.contract, prefix.fromService,
                prefix.toService, prefix.replyKey, prefix.acceptUntil, prefix.expiresAt, kind, seq, ack, transmitted, skipped, sentAt,
                type, code, description, contentType, body, value);
        found.check();
        return found;
    }

    private static long longAfterFlag(Avro.Reader in) throws Avro.Broken {
        in.flag(); // resends is reserved
        return in.number();
    }

    private static Kind kind(int index) throws Avro.Broken {
        if (index < 0 || index >= Kind.values().length) {
            throw new Avro.Broken("there is no kind " + index);
        }
        return Kind.values()[index];
    }

    private void check() throws Avro.Broken {
        boolean fits = switch (kind) {
            case MESSAGE, END -> seq >= 0;
            case ERROR -> seq >= NONE && code != 0;
            case ACK, RESEND -> seq == NONE;
            case FENCE, FENCED -> false;
        };
        if (!fits) {
            throw new Avro.Broken(kind + " with number " + seq + " and code " + code);
        }
        if (!skipped.isEmpty() && (kind != Kind.ACK || skipped.stream().anyMatch(number -> number < 0))) {
            throw new Avro.Broken("skipped numbers do not fit");
        }
    }

    boolean isNumbered() {
        return kind == Kind.MESSAGE || kind == Kind.END;
    }

    /** The conversation id as a text. */
    String id() {
        java.nio.ByteBuffer both = java.nio.ByteBuffer.wrap(conversation);
        return new UUID(both.getLong(), both.getLong()).toString();
    }
}
