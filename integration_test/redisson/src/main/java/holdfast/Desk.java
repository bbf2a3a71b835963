package holdfast;

import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;

/** What one thread has to do, in order. */
final class Desk implements Runnable {
    private final BlockingQueue<Ask> asks = new LinkedBlockingQueue<>();
    private final Consumer<Ask> act;

    Desk(Consumer<Ask> act) {
        this.act = act;
    }

    void put(Ask ask) {
        asks.add(ask);
    }

    @Override
    public void run() {
        while (true) {
            Ask next;
            try {
                next = asks.take();
            } catch (InterruptedException e) {
                continue; // it came when there was nothing to interrupt
            }
            if (next.op.equals("leave")) {
                return;
            }
            act.accept(next);
        }
    }
}
