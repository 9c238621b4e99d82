package streams;

import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericDatumReader;
import org.apache.avro.generic.GenericDatumWriter;
import org.apache.avro.generic.GenericRecord;
import org.apache.avro.io.BinaryDecoder;
import org.apache.avro.io.BinaryEncoder;
import org.apache.avro.io.DecoderFactory;
import org.apache.avro.io.EncoderFactory;
import org.apache.avro.util.Utf8;

/** Plain Avro envelopes, with everything reused that may be: for one stream thread. */
final class Envelopes {
    static final Utf8 REPLY = new Utf8("REPLY");

    private final GenericDatumReader<GenericRecord> reader;
    private final GenericDatumWriter<GenericRecord> writer;
    private final ByteArrayOutputStream out = new ByteArrayOutputStream(512);
    private BinaryDecoder decoder;
    private BinaryEncoder encoder;

    Envelopes(Schema schema) {
        reader = new GenericDatumReader<>(schema);
        writer = new GenericDatumWriter<>(schema);
    }

    GenericRecord decode(byte[] value) {
        try {
            decoder = DecoderFactory.get().binaryDecoder(value, decoder);
            return reader.read(null, decoder);
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }

    byte[] encode(GenericRecord envelope) {
        try {
            out.reset();
            encoder = EncoderFactory.get().directBinaryEncoder(out, encoder);
            writer.write(envelope, encoder);
            encoder.flush();
            return out.toByteArray();
        } catch (IOException error) {
            throw new UncheckedIOException(error);
        }
    }
}
