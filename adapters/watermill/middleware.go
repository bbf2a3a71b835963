package holdfastwatermill

import (
	"context"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"

	"github.com/holdfast-go/holdfast"
	"github.com/holdfast-go/holdfast/internal/adapt"
)

// DefaultWait is how long a message waits for its lock.
const DefaultWait = 10 * time.Second

// New makes a middleware for message.Router.AddMiddleware and message.Handler.AddMiddleware. locks
// makes the lock of a message, of any kind, or returns nil if the message needs none. Messages with
// locks of one name are not handled at once. opts are for each message; give [holdfast.Wait] for another
// limit than [DefaultWait].
func New(locks func(msg *message.Message) holdfast.Locker, opts ...holdfast.Option) message.HandlerMiddleware {
	opts = adapt.Defaults(opts, holdfast.Wait(DefaultWait))
	return func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			lock, err := adapt.LockOf(locks, msg)
			if err != nil {
				return nil, err
			}
			if lock == nil {
				return next(msg)
			}
			var produced []*message.Message
			outer := msg.Context()
			var held context.Context
			_, err = adapt.Run(outer, lock, func(ctx context.Context) (err error) {
				held = context.WithValue(ctx, heldKey{}, new(byte)) // each hold's mark is another
				msg.SetContext(held)
				defer msg.SetContext(outer) // the message goes on; the hold does not
				produced, err = next(msg)
				return err
			}, opts...)
			if err != nil {
				return nil, err
			}
			for _, m := range produced {
				goOn(held, outer, m)
			}
			return produced, nil
		}
	}
}
