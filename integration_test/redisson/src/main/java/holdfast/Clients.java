package holdfast;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.redisson.Redisson;
import org.redisson.api.RedissonClient;
import org.redisson.config.BaseConfig;
import org.redisson.config.BaseMasterSlaveServersConfig;
import org.redisson.config.ClusterServersConfig;
import org.redisson.config.Config;
import org.redisson.config.NameMapper;
import org.redisson.config.ShardedSubscriptionMode;
import org.redisson.config.SingleServerConfig;

/** The clients of a worker, by the names that the tests give them. */
final class Clients {
    private final Map<String, RedissonClient> clients = new ConcurrentHashMap<>();
    private final Locks locks = new Locks();

    Object act(Ask ask) throws Exception {
        if (ask.op.equals("ping")) {
            return true;
        }
        if (ask.op.equals("connect")) {
            RedissonClient made = connect(ask.settings);
            clients.put(ask.client, made);
            return made.getId();
        }
        RedissonClient client = clients.get(ask.client);
        if (client == null) {
            throw new IllegalArgumentException("no client " + ask.client);
        }
        switch (ask.op) {
            case "shutdown":
                clients.remove(ask.client);
                client.shutdown(0, 2, TimeUnit.SECONDS);
                return true;
            default:
                break;
        }
        switch (ask.kind) {
            case "permits":
                return Permits.act(client.getPermitExpirableSemaphore(ask.name), ask);
            case "latch":
                return Latches.act(client.getCountDownLatch(ask.name), ask);
            default:
                return locks.act(client, ask);
        }
    }

    private static RedissonClient connect(Ask.Settings s) {
        Config config = new Config();
        config.setThreads(4).setNettyThreads(4);
        if (s.watchdog > 0) {
            config.setLockWatchdogTimeout(s.watchdog);
        }
        if (s.fairWait > 0) {
            config.setFairLockWaitTimeout(s.fairWait);
        }
        String[] addrs = s.addrs.stream().map(a -> "redis://" + a).toArray(String[]::new);
        switch (s.mode) {
            case "single":
                SingleServerConfig single = config.useSingleServer().setAddress(addrs[0]);
                single.setConnectionMinimumIdleSize(1).setSubscriptionConnectionMinimumIdleSize(1);
                if (s.timeout > 0) {
                    single.setTimeout((int) s.timeout);
                }
                map(single, s);
                break;
            case "sentinel":
                sparing(config.useSentinelServers().setMasterName(s.master).addSentinelAddress(addrs), s);
                break;
            case "cluster":
                ClusterServersConfig cluster = config.useClusterServers().addNodeAddress(addrs).setScanInterval(1000);
                if (!s.sharded.isEmpty()) {
                    cluster.setShardedSubscriptionMode(ShardedSubscriptionMode.valueOf(s.sharded));
                }
                sparing(cluster, s);
                break;
            default:
                throw new IllegalArgumentException("no such mode: " + s.mode);
        }
        return Redisson.create(config);
    }

    /** Opens few connections at first: dozens of clients live in one test run. */
    private static void sparing(BaseMasterSlaveServersConfig<?> config, Ask.Settings s) {
        config.setMasterConnectionMinimumIdleSize(1);
        config.setSlaveConnectionMinimumIdleSize(1);
        config.setSubscriptionConnectionMinimumIdleSize(1);
        map(config, s);
    }

    private static void map(BaseConfig<?> config, Ask.Settings s) {
        if (s.prefix.isEmpty()) {
            return;
        }
        config.setNameMapper(new NameMapper() {
            @Override
            public String map(String name) {
                return s.prefix + name;
            }

            @Override
            public String unmap(String name) {
                return name.substring(s.prefix.length());
            }
        });
    }
}
