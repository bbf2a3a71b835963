// Package holdfastwatermill lets handlers of Watermill handle one message at a time of those that must
// not meet.
//
//	router.AddMiddleware(holdfastwatermill.New(func(msg *message.Message) holdfast.Locker {
//		return rlock.New(client, "account:"+msg.Metadata.Get("account")) // nil: this message needs no lock
//	}))
//
// A message waits for its lock, by default for ten seconds. Then it is an error, for which errors.Is is
// true for [holdfast.ErrNotAcquired], the message is nacked, and most brokers deliver it again at once.
// Give [holdfast.Wait] less than the broker waits for an Ack. Put Watermill's Retry around this
// middleware to wait between attempts.
//
// # Who is told of a loss
//
// The handler, by the context of the message: it ends when the lock is lost, with [holdfast.ErrLost] as
// its cause. A message whose lock was lost has failed with ErrLost, even if its handler returned nil, and
// is delivered again, because another may have been handled at the same time. What the handler
// produced is then not published. If nobody answers to the Unlock of a message that is handled, it is
// handled.
//
// A message that the handler produces may have the context of the one that it handles, as
// message.CopyWithContext gives it. The hold, with its end, its owner and its token, is taken out of it
// before the message is published.
//
// # Not promised
//
//   - That what a handler produces is published under the lock. The router publishes, and acknowledges,
//     when all middlewares have returned: the next message may be handled before that.
//   - That messages are handled in the order in which they came.
//   - That no two handlers meet where one ignores its context.
package holdfastwatermill
