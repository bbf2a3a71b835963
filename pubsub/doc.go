// Package pubsub wakes the waiters of a name when a message arrives on the name's channel.
//
// # What is promised, and what is not
//
// A wake-up is a hint. Redis does not keep messages: one that is published while nobody is
// subscribed, or while a connection is down, is gone. So this package does not promise a wake-up
// for every release, nor that the name is free when a waiter wakes. There is a token for each
// message, and for each moment after which an earlier message may have been missed. So a waiter
// that asks the server after every wake-up does not sleep through a gap that the client could
// notice. A waiter must nevertheless have a time limit of its own (the end of the holder's lease):
// a server that dies between a release and its message announces nothing, and a dead connection is
// noticed only after two periods of [Options.Ping]. Nor does a subscription have to be confirmed: a
// server may have no room for a connection more (maxclients), and a proxy or a firewall may not pass
// SUBSCRIBE on. While [Subscription.Confirmed] is false, a waiter asks once in a while by itself.
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
// # Who is woken
//
// Every [Subscription] of a channel in this process. Above this package only the first waiter in
// the local queue of a name subscribes, so waking all wakes one. Rejected: a semaphore per name
// that hands each message to one subscriber, as in Redisson. A waiter that is cancelled at the
// moment when it was chosen must then pass the wake-up on, in every path out of its loop, or the
// others sleep until the lease ends. With one subscriber per name it saves nothing.
//
// Tokens coalesce: each subscription has a buffer of one, and a second message before the first
// token is taken adds nothing, because the waiter looks at the state of the server afterwards
// anyway.
//
// # Connections
//
// A link is the one subscriber connection to a server, however many channels it carries. It has two
// goroutines: the reader opens the connection and blocks in it; the keeper does everything else
// (SUBSCRIBE, UNSUBSCRIBE, lingering, pings, opening again with a growing delay). Both exist only
// while the link has channels, and for [Options.Linger] after the last: a client that waits for
// nothing has no connection here, no goroutine, and sends nothing.
//
//	             Subscribe                confirmed
//	(no topic) ───────────▶ routing ▶ queued ▶ subscribing ─────────▶ confirmed ─┐
//	     ▲                     ▲         ▲                                 │      │ last Close, then Linger:
//	     │                     │         └── connection lost ──────────────┤      │ UNSUBSCRIBE
//	     │                     └── MOVED, sunsubscribe, loss in a cluster ─┘      │
//	     └────────────────────────────────────────────────────────────────────────┘
//
// The subscription of a channel stays for Linger after its last waiter has left, so that names
// under contention do not send a SUBSCRIBE and an UNSUBSCRIBE for every wait. A waiter that joins a
// confirmed channel gets a token at once, because a message may have arrived between its failed try
// and its joining.
//
// A go-redis PubSub connects again by itself, silently, with messages lost in the gap. Here each
// PubSub is used for one connection only and the first error ends it; the next connection confirms
// its channels anew and each confirmation is a wake-up.
//
// # Which server
//
// With a single server or Sentinel everything is on one link. A Ring has one link per shard,
// because it publishes to the shard of the channel; a Ring that moves a channel to another shard
// without breaking the connection to the first is not noticed. In a cluster channels are sharded
// (SSUBSCRIBE): the channel's name carries the lock's hash tag, so its slot, and thereby its
// server, is the lock's. When the slot moves, the server sends a sunsubscribe or answers MOVED, or
// the connection breaks; in each case the state of the cluster is loaded again and the channel is
// routed anew. A node that does not know SSUBSCRIBE (Redis before 7) is remembered for a minute,
// and its channels use one link with the classic SUBSCRIBE, which any node of a cluster serves for
// all. With [Options.Classic] they always do.
//
// A ClusterClient that was given its map of slots (ClusterSlots, as redis.NewFailoverClusterClient
// does) has servers that are no cluster. Messages are published there by the classic PUBLISH, and
// arrive at the channel's master.
//
// # A replica of a cluster
//
// A replica accepts SSUBSCRIBE, but the master of its shard does not count the replica's subscribers.
// So whoever asks the master whether somebody listens is told that nobody does. After a failover the
// map of slots names the old master for a moment, which is a replica by then. So a node is asked for
// its role before channels that were subscribed already are subscribed there, and once a second while
// somebody waits there. From a replica the channels go elsewhere. So a waiter is at a master within
// about a second of the moment when go-redis can learn which node that is. The price is a HELLO a
// second for each client and each node of the cluster at which it waits, however many its waiters. HELLO
// says the role, and needs no permission, unlike ROLE.
//
// # A server that is replaced and lives on
//
// After a failover by Sentinel the old primary may live on for a while, and subscribers with it: it
// answers pings, and nothing is published there. So while somebody waits behind Sentinel, a link
// checks once a second which server commands go to now. If it is another server, the connection is
// replaced. A waiter wakes about a second after the go-redis client has learned of the new primary,
// whatever becomes of the old one.
//
// A client of [redis.NewFailoverClient] closes its connections to the old primary when it learns of
// the new one. A PING by it then opens one to the new primary, which a hook sees, by its remote
// address. That PING is the price: one a second for each client with waiters, however many. A
// client of redis.NewFailoverClusterClient knows where commands go, and sends nothing more. Other
// clients are not checked: a server that is replaced behind its own address must close its
// connections, or be silent.
//
// Not promised: that a new primary is noticed if go-redis does not know of it, or if all
// connections of the dialer have one remote address. A server with several addresses looks like
// several servers. So a connection is replaced at most every three seconds, and more and more
// rarely if that goes on, down to once a minute.
//
// # Errors
//
// If trying again cannot help, an error reply to SUBSCRIBE belongs to the channel (an ACL that
// forbids the channel, a missing password). The channel's subscribers are woken and find the error
// in [Subscription.Err]. Other channels go on. The reply does not say which channel of a command
// was refused; after the refusal of a command for several each is tried in a command of its own.
// The error is that of go-redis, without advice: a redis.Error with what the server said (NOPERM, NOAUTH, WRONGPASS;
// lua.AuthProblemOf knows the words of proxies too), or redis.ErrClosed if the go-redis client was closed. A server that is
// a replica now (READONLY), full or loading is no error here: it is asked again.
// Network errors are never permanent: connections are opened again as long as anybody waits. They
// wake once per outage, not once per attempt, so that an outage does not turn all waiters into a
// polling crowd.
//
// # Closing
//
// [Hub.Close] is bounded by its context, its goroutines by the client's timeouts: a TCP dial is cut
// off at once, but a server that accepts a connection and stays silent holds go-redis in the
// handshake until the client's ReadTimeout, and TLS dials until its DialTimeout, because go-redis
// does not look at a context there. Close then returns the context's error and the goroutines end
// by themselves.
package pubsub
