import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.Consumer;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.TopicPartition;

/** The services of a namespace. */
final class Catalog {
    private static final String SERVICE = "service/";
    private static final ObjectMapper JSON = new ObjectMapper();

    private final Consumer<byte[], byte[]> consumer;
    private final TopicPartition topic;
    private final Map<String, JsonNode> services = new HashMap<>();

    Catalog(Consumer<byte[], byte[]> consumer, Topics topics) {
        this.consumer = consumer;
        topic = new TopicPartition(topics.catalog(), 0);
        consumer.assign(List.of(topic));
        consumer.seekToBeginning(List.of(topic));
        refresh();
    }

    /** Returns the entry of a service, or null. If it is not known yet, the new records of the catalog are read first. */
    JsonNode service(String name) {
        if (!services.containsKey(name)) {
            refresh();
        }
        return services.get(name);
    }

    int partitions(String name) {
        JsonNode entry = service(name);
        if (entry == null) {
            throw new IllegalStateException("the catalog names no service " + name);
        }
        return entry.get("partitions").intValue();
    }

    private void refresh() {
        long end = consumer.endOffsets(List.of(topic)).get(topic);
        while (consumer.position(topic) < end) {
            consumer.poll(Duration.ofMillis(100)).forEach(this::take);
        }
    }

    private void take(ConsumerRecord<byte[], byte[]> record) {
        String key = new String(record.key(), StandardCharsets.UTF_8);
        if (!key.startsWith(SERVICE)) {
            return;
        }
        String name = key.substring(SERVICE.length());
        if (record.value() == null) {
            services.remove(name);
            return;
        }
        try {
            JsonNode entry = JSON.readTree(record.value());
            if (entry.path("partitions").isInt()) {
                services.put(name, entry);
            }
        } catch (IOException error) {
            System.err.println("a record of the catalog is ignored: " + error);
        }
    }
}
