package streams;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.time.Duration;
import java.util.Map;
import java.util.Properties;
import org.apache.avro.Schema;
import org.apache.avro.generic.GenericRecord;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.Deserializer;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.common.serialization.Serializer;
import org.apache.kafka.common.serialization.StringSerializer;
import org.apache.kafka.common.utils.AppInfoParser;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** The bare loop's work in Kafka Streams, exactly once, with its store against duplicates. Arguments: JOB SCHEMA, in JSON. */
public final class Loop {
    private static final String MARK = "bench-result ";
    private static final String STORE = "next";

    private Loop() {}

    /** Answers a message unless it was answered before. */
    private static final class Answer implements Processor<byte[], GenericRecord, String, GenericRecord> {
        private final Watch watch;
        private final int conversation;
        private final int kind;
        private final int seq;
        private final int ack;
        private ProcessorContext<String, GenericRecord> context;
        private KeyValueStore<String, Long> next;

        Answer(Watch watch, Schema schema) {
            this.watch = watch;
            conversation = schema.getField("conversation").pos();
            kind = schema.getField("kind").pos();
            seq = schema.getField("seq").pos();
            ack = schema.getField("ack").pos();
        }

        @Override
        public void init(ProcessorContext<String, GenericRecord> given) {
            context = given;
            next = given.getStateStore(STORE);
        }

        @Override
        public void process(Record<byte[], GenericRecord> record) {
            watch.record();
            GenericRecord envelope = record.value();
            String key = envelope.get(conversation).toString();
            Long stored = next.get(key);
            long expected = stored == null ? 0 : stored;
            if ((Long) envelope.get(seq) != expected) {
                return;
            }
            next.put(key, expected + 1);
            envelope.put(kind, Envelopes.REPLY);
            envelope.put(ack, expected);
            context.forward(new Record<>(key, envelope, record.timestamp()));
        }
    }

    private static Topology topology(JsonNode job, Schema schema, Watch watch) {
        String space = job.get("space").asText();
        Envelopes envelopes = new Envelopes(schema);
        Deserializer<GenericRecord> decode = (topic, value) -> envelopes.decode(value);
        Serializer<GenericRecord> encode = (topic, envelope) -> envelopes.encode(envelope);
        Topology topology = new Topology();
        topology.addSource("source", new ByteArrayDeserializer(), decode, space + ".in");
        topology.addProcessor("answer", () -> new Answer(watch, schema), "source");
        topology.addStateStore(
            Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore(STORE), Serdes.String(), Serdes.Long())
                .withLoggingEnabled(Map.of())
                .withCachingEnabled(),
            "answer");
        topology.addSink("target", space + ".out", new StringSerializer(), encode, "answer");
        return topology;
    }

    private static Properties settings(JsonNode job) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, job.get("space").asText() + ".streams");
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, job.get("bootstrap").asText());
        settings.put(StreamsConfig.STATE_DIR_CONFIG, job.get("directory").asText());
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 100); // its default under this guarantee
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, 1); // a second one does not help beside the broker
        settings.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, 1);
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG), "earliest");
        settings.put(StreamsConfig.consumerPrefix(ConsumerConfig.FETCH_MAX_WAIT_MS_CONFIG), 100);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.LINGER_MS_CONFIG), 5);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.BATCH_SIZE_CONFIG), 1_000_000);
        settings.put(StreamsConfig.producerPrefix(ProducerConfig.COMPRESSION_TYPE_CONFIG), "lz4");
        return settings;
    }

    public static void main(String[] arguments) throws Exception {
        JsonNode job = new ObjectMapper().readTree(arguments[0]);
        Schema schema = new Schema.Parser().parse(arguments[1]);
        Watch watch = new Watch(job.get("workload").get("messages").asLong());
        KafkaStreams streams =
            new KafkaStreams(topology(job, schema, watch), settings(job), new TimedClients(watch));
        streams.setUncaughtExceptionHandler(error -> {
            error.printStackTrace();
            Runtime.getRuntime().halt(3);
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
        streams.start();
        watch.done.await();
        streams.close(Duration.ofSeconds(20));
        System.out.printf(
            "%n%s{%s, \"versions\": {\"kafka-streams\": \"%s\", \"java\": \"%s\"}}%n",
            MARK, watch.result(), AppInfoParser.getVersion(), Runtime.version());
        System.out.flush();
        Runtime.getRuntime().halt(0);
    }
}
