package streams;

import com.sun.management.OperatingSystemMXBean;
import java.lang.management.ManagementFactory;
import java.util.concurrent.CountDownLatch;

/** What is measured, from the first record to the commit after the last. Written by the one stream thread. */
final class Watch {
    private static final OperatingSystemMXBean SYSTEM =
        (OperatingSystemMXBean) ManagementFactory.getOperatingSystemMXBean();

    final CountDownLatch done = new CountDownLatch(1);
    private final long messages;
    private long began;
    private long cpuBegan;
    private long handled;
    private long commits;
    private String result;

    Watch(long messages) {
        this.messages = messages;
    }

    /** A record is about to be processed. */
    void record() {
        if (handled++ == 0) {
            began = System.nanoTime();
            cpuBegan = SYSTEM.getProcessCpuTime();
        }
    }

    /** A transaction was committed. */
    void committed() {
        if (handled == 0) {
            return;
        }
        commits++;
        if (handled >= messages && done.getCount() > 0) {
            double seconds = (System.nanoTime() - began) / 1e9;
            double cpu = (SYSTEM.getProcessCpuTime() - cpuBegan) / 1e9;
            result = String.format(
                java.util.Locale.ROOT,
                "\"messages\": %d, \"seconds\": %.6f, \"cpu_seconds\": %.6f, \"commits\": %d, \"late\": 0",
                handled, seconds, cpu, commits);
            done.countDown();
        }
    }

    /** Call only after {@link #done}, which publishes it. */
    String result() {
        return result;
    }
}
