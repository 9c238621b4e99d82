import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.Future;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * Begins dialogs for a service, and sends numbers on them. It prints the id of each dialog.
 *
 * <p>Some commands are appended twice, as if the first answer of Kafka had been lost.
 */
public final class CountingClient {
    private CountingClient() {}

    public static void main(String[] arguments) throws Exception {
        Topics topics = new Topics(arguments[1]);
        int dialogs = Integer.parseInt(arguments[2]);
        int length = Integer.parseInt(arguments[3]);
        Catalog catalog = new Catalog(Clients.consumer(arguments[0], Map.of()), topics);
        catalog.partitions("sink"); // a dialog with a service that does not exist would wait for it
        int count = catalog.partitions("source");
        try (KafkaProducer<byte[], byte[]> producer = Clients.producer(arguments[0], Map.of())) {
            List<Future<RecordMetadata>> sent = new ArrayList<>();
            for (int at = 0; at < dialogs; at++) {
                UUID conversation = Command.newConversation(Clients.now());
                byte[] key = conversation.toString().getBytes(StandardCharsets.UTF_8);
                for (int n = 0; n < length; n++) {
                    Command command = command(conversation, n, length);
                    for (int times = n % 5 == 0 ? 2 : 1; times > 0; times--) {
                        sent.add(producer.send(new ProducerRecord<>(topics.commands("source"), Topics.partition(key, count), key,
                                command.value(Clients.now()))));
                    }
                }
                System.out.println(conversation);
            }
            for (Future<RecordMetadata> confirmed : sent) {
                confirmed.get();
            }
        }
    }

    /** The first command begins the dialog. The others have an idempotency key, so that a second copy has no effect. */
    private static Command command(UUID conversation, int n, int length) {
        byte[] body = "{\"n\":%d,\"of\":%d}".formatted(n, length).getBytes(StandardCharsets.UTF_8);
        Command command = new Command(conversation, conversation.toString(), "source", n == 0 ? "" : "number " + n);
        if (n == 0) {
            command.begin("sink", "Counting");
        }
        return command.send("Number", "application/json", body);
    }
}
