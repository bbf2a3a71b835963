// Package pubsub wakes the waiters of a name when a message arrives on the name's channel.
//
// # What is promised, and what is not
//
// A wake-up is a hint. Redis does not keep messages: a message that is published while nobody is
// subscribed, or while a connection is down, is lost. So this package does not promise a wake-up
// for every release, nor that the name is free when a waiter wakes.
//
// A waiter gets a token for each message, and for each moment after which an earlier message may
// have been missed. So a waiter that asks the server after every wake-up does not sleep through a
// gap that the client could notice. A waiter must nevertheless have a time limit of its own, the
// end of the holder's lease. A server that dies between a release and its message announces
// nothing, and the client notices a dead connection only after two periods of [Options.Ping].
//
// Nor is a subscription always confirmed. A server may have no room for another connection
// (maxclients), and a proxy or a firewall may not pass SUBSCRIBE on. While [Subscription.Confirmed]
// is false, a waiter asks once in a while by itself.
//
// The protocol of a waiter, in this order:
//
//	s := hub.Subscribe(channel)
//	defer s.Close()
//	for {
//		try to take the name; done if that worked
//		select {
//		case <-s.Wake(): // s.Err() != nil: this channel can never be subscribed
//		case <-time.After(lease left): // a second at most, while s.Confirmed() is false
//		case <-ctx.Done():
//		}
//	}
//
// A waiter need not wait between Subscribe and its first try. When the subscription is confirmed
// later, the token of the confirmation makes the waiter try again. That covers the messages between
// the first try and the confirmation.
//
// # Which waiters wake
//
// A message wakes every [Subscription] of its channel in this process. Above this package only the
// first waiter in the local queue of a name subscribes, so waking all wakes one. Rejected: a
// semaphore per name that hands each message to one subscriber, as in Redisson. A waiter that is
// cancelled just after it was chosen must then pass the wake-up on, in every path out of its loop,
// or the others sleep until the lease ends. With one subscriber per name that saves nothing.
//
// Tokens coalesce. Each subscription has a buffer of one, and a second message before the waiter
// takes the first token adds nothing, because the waiter then asks the server anyway.
//
// # Connections
//
// A link is the one subscriber connection to a server, however many channels it carries. It has two
// goroutines. The reader opens the connection and blocks in it. The keeper does everything else
// (SUBSCRIBE, UNSUBSCRIBE, lingering, pings, opening again with a growing delay). Both exist only
// while the link has channels, and for [Options.Linger] after the last. A client that waits for
// nothing has no connection here and no goroutine, and sends nothing.
//
//	             Subscribe                confirmed
//	(no topic) ───────────▶ routing ▶ queued ▶ subscribing ─────────▶ confirmed ─┐
//	     ▲                     ▲         ▲                                 │      │ last Close, then Linger:
//	     │                     │         └── connection lost ──────────────┤      │ UNSUBSCRIBE
//	     │                     └── MOVED, sunsubscribe, loss in a cluster ─┘      │
//	     └────────────────────────────────────────────────────────────────────────┘
//
// The subscription of a channel stays for Linger after its last waiter has gone, so that names
// under contention do not send a SUBSCRIBE and an UNSUBSCRIBE for every wait. A waiter that joins a
// confirmed channel gets a token at once, because a message may have arrived between its failed try
// and its joining.
//
// A go-redis PubSub connects again by itself, silently, and messages in the gap are lost. Here each
// PubSub is used for one connection only, and the first error ends it. The next connection confirms
// its channels anew, and each confirmation is a wake-up.
//
// # Which server
//
// With a single server or Sentinel everything is on one link. A Ring has one link per shard,
// because it publishes to the shard of the channel. The hub does not notice if a Ring moves a
// channel to another shard without breaking the connection to the first.
//
// In a cluster channels are sharded (SSUBSCRIBE). The channel's name carries the lock's hash tag,
// so its slot, and thereby its server, is the lock's. When the slot moves, the server sends a
// sunsubscribe or answers MOVED, or the connection breaks. In each case the hub loads the state of
// the cluster again and routes the channel anew. The hub remembers for a minute that a node does
// not know SSUBSCRIBE (Redis before 7). The channels of such a node use one link with the classic
// SUBSCRIBE, which any node of a cluster serves for all. With [Options.Classic] they always do.
//
// A ClusterClient that was given its map of slots (ClusterSlots, as redis.NewFailoverClusterClient
// does) has servers that are not a cluster. Messages are published there by the classic PUBLISH,
// and arrive at the channel's master.
//
// # A replica of a cluster
//
// A replica accepts SSUBSCRIBE, but the master of its shard does not count the replica's
// subscribers. So the master says that nobody listens, even if somebody does at the replica. After
// a failover the map of slots names the old master for a moment, which is a replica by then.
//
// So the hub asks a node for its role before it subscribes channels there that were subscribed
// already, and once a second while somebody waits there. It moves channels away from a replica. So
// a waiter is at a master within about a second of the moment when go-redis can learn which node
// that is. The price is a HELLO a second for each client and each node of the cluster at which it
// waits, however many its waiters. HELLO reports the role, and needs no permission, unlike ROLE.
//
// # A server that is replaced and lives on
//
// After a failover by Sentinel the old primary may live on for a while, and its subscribers with
// it. It answers pings, but nothing is published there. So while somebody waits behind Sentinel, a
// link checks once a second which server commands go to now. If that is another server, the link
// replaces its connection. A waiter wakes about a second after the go-redis client has learned of
// the new primary, whatever becomes of the old one.
//
// A client of [redis.NewFailoverClient] closes its connections to the old primary when it learns of
// the new one. A PING by it then opens a connection to the new primary. A hook sees that
// connection, by its remote address. The price is that PING: one a second for each client with
// waiters, however many. A client of redis.NewFailoverClusterClient knows where commands go, and
// sends nothing more. The hub does not check other clients: a server that is replaced behind its
// own address must close its connections, or be silent.
//
// Not promised: that the hub notices a new primary if go-redis does not know of it, or if all
// connections of the dialer have one remote address. A server with several addresses looks like
// several servers. So a link replaces its connection at most every three seconds, and less and less
// often if that goes on, down to once a minute.
//
// # Errors
//
// If trying again cannot help, an error reply to SUBSCRIBE belongs to the channel (an ACL that
// forbids the channel, a missing password). The channel's subscribers wake and find the error in
// [Subscription.Err]. Other channels go on. The reply does not say which channel of a command was
// refused. So after the refusal of a command for several channels, the link tries each in a command
// of its own.
//
// The error is that of go-redis, without advice. It is a redis.Error with the server's text
// (NOPERM, NOAUTH, WRONGPASS; lua.AuthProblemOf knows the words of proxies too), or redis.ErrClosed
// if the go-redis client was closed. A server that is a replica now (READONLY), full or loading is
// not an error here: the link asks it again.
//
// Network errors are never permanent: links open connections again as long as anybody waits. They
// wake the waiters once per outage, not once per attempt, so that waiters do not all poll during an
// outage.
//
// # Closing
//
// The context of [Hub.Close] bounds it, and the client's timeouts bound its goroutines. Close cuts
// a TCP dial off at once. But a server that accepts a connection and stays silent holds go-redis in
// the handshake until the client's ReadTimeout, and TLS dials until its DialTimeout, because
// go-redis does not look at a context there. Close then returns the context's error, and the
// goroutines end by themselves.
package pubsub
