import java.io.ByteArrayOutputStream;
import java.nio.BufferUnderflowException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;

/** The part of Avro's binary encoding that envelopes and commands need. */
final class Avro {
    private Avro() {}

    /** Bytes that are not the record that was expected. */
    static final class Broken extends Exception {
        private static final long serialVersionUID = 1L;

        Broken(String why) {
            super(why);
        }
    }

    /** Returns the beginning of every record of a schema: marker and fingerprint. */
    static byte[] head(String fingerprint) {
        return HexFormat.of().parseHex("c301" + fingerprint);
    }

    /** Writes the fields of a record, one after the other. */
    static final class Writer {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream(256);

        Writer fixed(byte[] value) {
            out.writeBytes(value);
            return this;
        }

        Writer number(long value) {
            long rest = (value << 1) ^ (value >> 63);
            while ((rest & ~0x7FL) != 0) {
                out.write((int) (rest & 0x7F | 0x80));
                rest >>>= 7;
            }
            out.write((int) rest);
            return this;
        }

        Writer flag(boolean value) {
            out.write(value ? 1 : 0);
            return this;
        }

        Writer bytes(byte[] value) {
            return number(value.length).fixed(value);
        }

        Writer text(String value) {
            return bytes(value.getBytes(StandardCharsets.UTF_8));
        }

        int size() {
            return out.size();
        }

        byte[] done() {
            return out.toByteArray();
        }
    }

    /** Reads the fields of a record, one after the other, and refuses what Avro does not allow. */
    static final class Reader {
        private final ByteBuffer in;

        Reader(byte[] value) {
            in = ByteBuffer.wrap(value);
        }

        int at() {
            return in.position();
        }

        byte[] fixed(int size) throws Broken {
            if (size < 0 || size > in.remaining()) {
                throw new Broken("a length of " + size + " at byte " + at());
            }
            byte[] value = new byte[size];
            in.get(value);
            return value;
        }

        long number() throws Broken {
            long rest = 0;
            try {
                for (int shift = 0; shift < 70; shift += 7) {
                    int part = in.get() & 0xFF;
                    if (shift == 63 && part > 1) {
                        break;
                    }
                    rest |= (long) (part & 0x7F) << shift;
                    if (part < 0x80) {
                        return (rest >>> 1) ^ -(rest & 1);
                    }
                }
            } catch (BufferUnderflowException end) {
                throw new Broken("the record ends inside a number");
            }
            throw new Broken("a number of more than 64 bits");
        }

        int small() throws Broken {
            long value = number();
            if (value != (int) value) {
                throw new Broken("a number of more than 32 bits");
            }
            return (int) value;
        }

        boolean flag() throws Broken {
            byte value = fixed(1)[0];
            if (value != 0 && value != 1) {
                throw new Broken("a boolean is neither 0 nor 1");
            }
            return value == 1;
        }

        byte[] bytes() throws Broken {
            return fixed(small());
        }

        String text() throws Broken {
            try {
                return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes())).toString();
            } catch (CharacterCodingException error) {
                throw new Broken("a text is not UTF-8");
            }
        }

        /** Reads an array of numbers, which may come in several blocks; {@code most} limits it before anything is allocated. */
        List<Long> numbers(int most) throws Broken {
            List<Long> found = new ArrayList<>();
            for (long count = number(); count != 0; count = number()) {
                if (count < 0) {
                    number(); // the size of the block in bytes
                    count = -count;
                }
                if (count < 0 || count > most - found.size()) {
                    throw new Broken("an array has more than " + most + " items");
                }
                for (; count > 0; count--) {
                    found.add(number());
                }
            }
            return found;
        }

        void end() throws Broken {
            if (in.hasRemaining()) {
                throw new Broken(in.remaining() + " bytes after the end of the record");
            }
        }
    }
}
