import java.io.ByteArrayOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.zip.CRC32;
import javax.crypto.AEADBadTagException;
import javax.crypto.Cipher;
import javax.crypto.Mac;
import javax.crypto.spec.GCMParameterSpec;
import javax.crypto.spec.SecretKeySpec;

/**
 * Verifies and opens sealed records, written from docs/protocol.md and docs/sealing.md alone.
 *
 * <p>Each line of the input is a record in hex, with blanks between: the secret, the key, the header crc, the value. For each,
 * one line is printed: "open", the id of the key, the number and the body in hex; or "crc" or "tag" for what does not hold.
 */
public final class SealReader {
    private static final HexFormat HEX = HexFormat.of();

    public static void main(String[] arguments) throws Exception {
        for (String line : new String(System.in.readAllBytes(), StandardCharsets.US_ASCII).split("\n")) {
            if (!line.isBlank()) {
                System.out.println(read(line.strip().split(" ")));
            }
        }
    }

    private static String read(String[] parts) throws Exception {
        byte[] secret = HEX.parseHex(parts[0]);
        byte[] key = HEX.parseHex(parts[1]);
        byte[] crc = HEX.parseHex(parts[2]);
        byte[] value = HEX.parseHex(parts[3]);
        CRC32 sum = new CRC32();
        sum.update(key);
        sum.update(value);
        if (!Arrays.equals(crc, ByteBuffer.allocate(4).putInt((int) sum.getValue()).array())) {
            return "crc";
        }
        Reader in = new Reader(value);
        in.skip(10); // marker and fingerprint
        byte[] conversation = in.bytes(16);
        byte direction = in.bytes(1)[0];
        for (int i = 0; i < 4; i++) {
            in.bytes((int) in.number()); // contract, from_service, to_service, reply_key
        }
        in.skip(1); // resends
        in.number(); // accept_until
        in.number(); // expires_at
        in.number(); // kind
        long seq = in.number();
        in.number(); // ack
        in.number(); // transmitted
        for (long count = in.number(); count != 0; count = in.number()) { // skipped
            if (count < 0) {
                throw new IllegalArgumentException("a block with a size");
            }
            for (long i = 0; i < count; i++) {
                in.number();
            }
        }
        in.number(); // sent_at
        in.bytes((int) in.number()); // message_type
        in.number(); // code
        in.bytes((int) in.number()); // description
        in.number(); // fragment
        in.number(); // fragments
        in.bytes((int) in.number()); // content_type
        int beforeBody = in.at;
        byte[] body = in.bytes((int) in.number());
        int beforeExtras = in.at;
        if (in.number() != 1) {
            throw new IllegalArgumentException("no extras");
        }
        if (in.number() == 1) { // origin
            in.skip(16);
            in.number();
            in.number();
        }
        if (in.number() != 1) {
            throw new IllegalArgumentException("no seal");
        }
        String keyId = new String(in.bytes((int) in.number()), StandardCharsets.UTF_8);
        int beforeNonce = in.at;
        byte[] nonce = in.bytes((int) in.number());
        byte[] tag = in.bytes((int) in.number());
        int afterTag = in.at;

        ByteArrayOutputStream data = new ByteArrayOutputStream();
        data.write(ByteBuffer.allocate(4).putInt(key.length).array());
        data.write(key);
        data.write(value, 0, beforeBody);
        data.write(0); // an empty body
        data.write(value, beforeExtras, beforeNonce - beforeExtras);
        data.write(0); // an empty nonce
        data.write(0); // an empty tag
        data.write(value, afterTag, value.length - afterTag);

        ByteArrayOutputStream info = new ByteArrayOutputStream();
        info.write("kafka-dialogs seal 1".getBytes(StandardCharsets.US_ASCII));
        info.write(direction);
        info.write(1); // the first and only block of HKDF-Expand
        byte[] cipherKey = hmac(hmac(conversation, secret), info.toByteArray());

        Cipher cipher = Cipher.getInstance("AES/GCM/NoPadding");
        cipher.init(Cipher.DECRYPT_MODE, new SecretKeySpec(cipherKey, "AES"), new GCMParameterSpec(128, nonce));
        cipher.updateAAD(data.toByteArray());
        ByteArrayOutputStream hidden = new ByteArrayOutputStream();
        hidden.write(body);
        hidden.write(tag);
        try {
            return "open " + keyId + " " + seq + " " + HEX.formatHex(cipher.doFinal(hidden.toByteArray()));
        } catch (AEADBadTagException e) {
            return "tag";
        }
    }

    private static byte[] hmac(byte[] key, byte[] text) throws Exception {
        Mac mac = Mac.getInstance("HmacSHA256");
        mac.init(new SecretKeySpec(key, "HmacSHA256"));
        return mac.doFinal(text);
    }

    /** Reads Avro's binary encoding. */
    private static final class Reader {
        private final byte[] value;
        private int at;

        Reader(byte[] value) {
            this.value = value;
        }

        void skip(int count) {
            at += count;
        }

        byte[] bytes(int count) {
            at += count;
            return Arrays.copyOfRange(value, at - count, at);
        }

        long number() {
            long found = 0;
            for (int shift = 0; ; shift += 7) {
                byte next = value[at++];
                found |= (long) (next & 0x7f) << shift;
                if (next >= 0) {
                    return found >>> 1 ^ -(found & 1);
                }
            }
        }
    }
}
