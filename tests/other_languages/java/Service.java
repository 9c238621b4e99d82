import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * A service on Kafka: each batch of records of its queue is one transaction with the answers, the changed dialogs and the offsets.
 *
 * <p>An exception ends the process, and nothing of its step takes effect. The next process goes on after the last commit.
 */
final class Service implements ConsumerRebalanceListener {
    private static final Duration POLL = Duration.ofMillis(200);

    private static final int STEP = 100;
    /** Milliseconds after which Kafka aborts the transaction of a dead process. Until then it hides what others have sent. */
    private static final int TIMEOUT = 10_000;

    private final String bootstrap;
    private final Topics topics;
    private final String name;
    private final KafkaConsumer<byte[], byte[]> queue;
    private final KafkaProducer<byte[], byte[]> producer;
    private final Catalog catalog;
    private final Clock clock = new Clock();
    private final Application application;
    private final Map<Integer, Target> owned = new HashMap<>();

    /** {@code slot} names this process; a process that takes its place has the same slot. */
    Service(String bootstrap, Topics topics, String name, String slot, Application application) {
        this.bootstrap = bootstrap;
        this.topics = topics;
        this.name = name;
        this.application = application;
        String group = topics.namespace() + "." + name;
        // A new process with the same instance id gets the partitions of the old one at once.
        queue = Clients.consumer(bootstrap, Map.of("group.id", group, "group.instance.id", slot, "max.poll.records", STEP));
        producer = Clients.producer(bootstrap, Map.of("transactional.id", group + "." + slot, "transaction.timeout.ms", TIMEOUT));
        catalog = new Catalog(Clients.consumer(bootstrap, Map.of()), topics);
    }

    void run() {
        producer.initTransactions(); // ends the open transaction of the process before
        queue.subscribe(List.of(topics.queue(name)), this);
        while (true) {
            step(queue.poll(POLL));
        }
    }

    private void step(ConsumerRecords<byte[], byte[]> records) {
        for (ConsumerRecord<byte[], byte[]> record : records) {
            owned.get(record.partition()).take(record);
        }
        owned.values().forEach(Target::endStep);
        if (records.isEmpty() && owned.values().stream().allMatch(target -> target.written().isEmpty())) {
            return;
        }
        producer.beginTransaction();
        for (Target target : owned.values()) {
            for (ProducerRecord<byte[], byte[]> written : target.written()) {
                producer.send(written);
            }
            target.written().clear();
        }
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (TopicPartition partition : records.partitions()) {
            offsets.put(partition, new OffsetAndMetadata(queue.position(partition)));
        }
        producer.sendOffsetsToTransaction(offsets, queue.groupMetadata());
        producer.commitTransaction();
    }

    @Override
    public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
        for (TopicPartition partition : partitions) {
            Target target = new Target(topics, name, partition.partition(), catalog, clock, application);
            restore(target);
            owned.put(partition.partition(), target);
        }
    }

    @Override
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
        partitions.forEach(partition -> owned.remove(partition.partition()));
    }

    /**
     * Reads the rows of a partition up to the high watermark.
     *
     * <p>A consumer of committed records does not pass an open transaction. So the reading also waits for the end of transactions of an
     * owner before.
     */
    private void restore(Target target) {
        TopicPartition rows = new TopicPartition(topics.state(name), target.partition());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
                KafkaConsumer<byte[], byte[]> reader = Clients.consumer(bootstrap, Map.of())) {
            long end = admin.listOffsets(Map.of(rows, OffsetSpec.latest())).partitionResult(rows).get().offset();
            reader.assign(Set.of(rows));
            reader.seekToBeginning(Set.of(rows));
            while (reader.position(rows) < end) {
                reader.poll(POLL).forEach(row -> target.restore(row.key(), row.value()));
            }
        } catch (Exception error) {
            throw new IllegalStateException(error);
        }
    }
}
