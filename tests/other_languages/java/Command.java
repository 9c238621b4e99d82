import java.nio.ByteBuffer;
import java.security.SecureRandom;
import java.util.UUID;

/** One record of a commands topic, in the schema command.v1: operations on the initiator's side of a dialog. */
final class Command {
    private static final byte[] HEAD = Avro.head("bf8a5da4331c51c8");
    private static final int BEGIN = 0;
    private static final int SEND = 1;
    private static final SecureRandom RANDOM = new SecureRandom();

    private final UUID conversation;
    private final String key;
    private final String service;
    private final String idempotencyKey;
    private final Avro.Writer operations = new Avro.Writer();
    private int count;

    Command(UUID conversation, String key, String service, String idempotencyKey) {
        this.conversation = conversation;
        this.key = key;
        this.service = service;
        this.idempotencyKey = idempotencyKey;
    }

    /** Begins the dialog, with the lifetime of its contract and the same key at the target. */
    Command begin(String toService, String contract) {
        operations.number(BEGIN).text(toService).text(contract).number(0).text("");
        count++;
        return this;
    }

    Command send(String messageType, String contentType, byte[] body) {
        operations.number(SEND).text(messageType).text(contentType).bytes(body);
        count++;
        return this;
    }

    /** The bytes of the record. Each call gives another command id, as a client that has got no answer does. */
    byte[] value(long now) {
        byte[] id = new byte[16];
        RANDOM.nextBytes(id);
        return new Avro.Writer().fixed(HEAD).fixed(id).fixed(bytes(conversation)).flag(true).text(key).text(idempotencyKey)
                .text(service).number(now).number(count).fixed(operations.done()).number(0).done();
    }

    /** Draws a UUIDv7, which begins with the time in milliseconds. */
    static UUID newConversation(long now) {
        long high = now / 1_000 << 16 | 0x7000 | RANDOM.nextInt(1 << 12);
        return new UUID(high, RANDOM.nextLong() & (1L << 62) - 1 | 1L << 63);
    }

    private static byte[] bytes(UUID id) {
        return ByteBuffer.allocate(16).putLong(id.getMostSignificantBits()).putLong(id.getLeastSignificantBits()).array();
    }
}
