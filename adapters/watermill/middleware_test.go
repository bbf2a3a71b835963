package holdfastwatermill_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/ThreeDotsLabs/watermill"
	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/ThreeDotsLabs/watermill/pubsub/gochannel"
	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
	holdfastwatermill "github.com/holdfast-go/holdfast/adapters/watermill"
	"github.com/holdfast-go/holdfast/fence"
	"github.com/holdfast-go/holdfast/internal/testkit/adaptertest"
	"github.com/holdfast-go/holdfast/internal/testkit/kindtest"
	"github.com/holdfast-go/holdfast/internal/testkit/redistest"
	"github.com/holdfast-go/holdfast/rlock"
)

func TestMain(m *testing.M) { redistest.Main(m) }

// broker passes each message to all processes.
func broker(t *testing.T) *gochannel.GoChannel { return brokerOf(t, gochannel.Config{}) }

func brokerOf(t *testing.T, config gochannel.Config) *gochannel.GoChannel {
	b := gochannel.NewGoChannel(config, watermill.NopLogger{})
	t.Cleanup(func() { require.NoError(t, b.Close()) })
	return b
}

// process starts a router that handles the messages of topic "in" and publishes to "out". It returns the error of each attempt.
func process(t *testing.T, b *gochannel.GoChannel, handler message.HandlerFunc, wrap ...message.HandlerMiddleware) <-chan error {
	r, err := message.NewRouter(message.RouterConfig{}, watermill.NopLogger{})
	require.NoError(t, err)
	attempts := make(chan error, 1000)
	r.AddMiddleware(func(next message.HandlerFunc) message.HandlerFunc {
		return func(msg *message.Message) ([]*message.Message, error) {
			before := msg.Context()
			out, err := next(msg)
			if msg.Context() != before {
				err = errors.New("the message has the context of the hold still")
			}
			adaptertest.Tell(attempts, err)
			return out, err
		}
	})
	r.AddMiddleware(wrap...)
	r.AddHandler("handler", "in", b, "out", b, handler)
	done := make(chan error, 1)
	go func() { done <- r.Run(context.Background()) }()
	<-r.Running()
	t.Cleanup(func() {
		require.NoError(t, r.Close())
		require.NoError(t, <-done)
	})
	return attempts
}

// locked is the middleware of one process: all messages of a test have one lock.
func locked(t *testing.T, opts ...holdfast.Option) message.HandlerMiddleware {
	c := adaptertest.Client(t)
	return holdfastwatermill.New(func(*message.Message) holdfast.Locker { return rlock.New(c, t.Name()) }, opts...)
}

func publish(t *testing.T, b *gochannel.GoChannel, n int) {
	for range n {
		require.NoError(t, b.Publish("in", message.NewMessage(watermill.NewUUID(), nil)))
	}
}

// TestNeverTwo: three processes handle each message, one at a time.
func TestNeverTwo(t *testing.T) {
	var section adaptertest.Section
	b := broker(t)
	for range 3 {
		process(t, b, func(msg *message.Message) ([]*message.Message, error) {
			section.Linger(msg.Context(), 10*time.Millisecond)
			return nil, nil
		}, locked(t))
	}
	publish(t, b, 4)
	adaptertest.Eventually(t, "all messages are handled", func() bool { return section.Runs() == 12 && section.Inside() == 0 })
	require.Equal(t, 1, section.Most())
}

// TestNeverTwoControl: without the middleware, and for messages without a lock, two at once.
func TestNeverTwoControl(t *testing.T) {
	for name, wrap := range map[string][]message.HandlerMiddleware{
		"no middleware": nil,
		"no lock":       {holdfastwatermill.New(func(*message.Message) holdfast.Locker { return nil })},
	} {
		t.Run(name, func(t *testing.T) {
			var section adaptertest.Section
			b := broker(t)
			for range 2 {
				process(t, b, func(msg *message.Message) ([]*message.Message, error) {
					section.Linger(msg.Context(), time.Minute)
					return nil, nil
				}, wrap...)
			}
			publish(t, b, 1)
			adaptertest.Eventually(t, "two at once", func() bool { return section.Most() > 1 })
		})
	}
}

// TestLoss: the handler is told. Its output is not published; the message comes again and waits. No lock of another is freed.
func TestLoss(t *testing.T) {
	b := broker(t)
	out, err := b.Subscribe(t.Context(), "out")
	require.NoError(t, err)
	work := adaptertest.NewWork()
	first := true
	attempts := process(t, b, func(msg *message.Message) ([]*message.Message, error) {
		if !first {
			return []*message.Message{message.NewMessage("second", nil)}, nil
		}
		first = false
		return []*message.Message{message.NewMessage("first", nil)}, work.Do(msg.Context())
	}, locked(t))
	publish(t, b, 1)
	work.Lost(t, t.Name())
	require.ErrorIs(t, adaptertest.Receive(t, "the error", attempts), holdfast.ErrLost)
	adaptertest.RequireStrangers(t, t.Name())
	adaptertest.GiveBack(t, t.Name())
	produced := adaptertest.Receive(t, "what is produced", out)
	require.Equal(t, "second", produced.UUID)
	produced.Ack()
	require.NoError(t, adaptertest.Receive(t, "the second attempt", attempts))
}

// TestWait: a message whose lock somebody else has is an error in the end, and then is delivered again.
func TestWait(t *testing.T) {
	other := kindtest.Lock(t, rlock.New(adaptertest.Client(t), t.Name()))
	b := broker(t)
	attempts := process(t, b, func(*message.Message) ([]*message.Message, error) { return nil, nil },
		locked(t, holdfast.Wait(0)))
	publish(t, b, 1)
	require.ErrorIs(t, adaptertest.Receive(t, "an attempt", attempts), holdfast.ErrNotAcquired)
	require.NoError(t, other.Unlock(t.Context()))
	for adaptertest.Receive(t, "an attempt", attempts) != nil { // the next one
	}
	adaptertest.RequireFree(t, t.Name())
}

// TestErrors: what the handler returns is what the router hears.
func TestErrors(t *testing.T) {
	broken := errors.New("out of paper")
	b := broker(t)
	first := true
	attempts := process(t, b, func(*message.Message) ([]*message.Message, error) {
		if first {
			first = false
			return nil, broken
		}
		return nil, nil
	}, locked(t))
	publish(t, b, 1)
	require.Equal(t, broken, adaptertest.Receive(t, "the error", attempts))
	require.NoError(t, adaptertest.Receive(t, "the second attempt", attempts))
}

// span is the key of what a handler adds to a context, such as a trace.
type span struct{}

// TestProduced: a produced message outlasts the hold: its context has the handler's values, not the hold's end, owner or token.
func TestProduced(t *testing.T) {
	b := brokerOf(t, gochannel.Config{PreserveContext: true})
	out, err := b.Subscribe(t.Context(), "out")
	require.NoError(t, err)
	c := adaptertest.Client(t)
	attempts := process(t, b, func(msg *message.Message) ([]*message.Message, error) {
		if _, ok := fence.Token(msg.Context()); !ok {
			return nil, errors.New("the handler's context has no token")
		}
		produced := message.NewMessage("1", nil)
		produced.SetContext(context.WithValue(msg.Context(), span{}, "a"))
		plain := message.NewMessage("2", nil)
		return []*message.Message{produced, msg.CopyWithContext(), plain}, nil
	}, locked(t))
	ctx, cancel := context.WithCancelCause(t.Context())
	in := message.NewMessage(watermill.NewUUID(), nil)
	in.SetContext(context.WithValue(ctx, inbound{}, []string{"b"})) // which cannot be compared
	require.NoError(t, b.Publish("in", in))
	require.NoError(t, adaptertest.Receive(t, "the attempt", attempts))

	got := make(map[string]*message.Message) // they may come in any order
	for range 3 {
		msg := adaptertest.Receive(t, "what is produced", out)
		msg.Ack()
		got[msg.UUID] = msg
	}
	all := []*message.Message{got["1"], got[in.UUID], got["2"]}
	require.NoError(t, all[2].Context().Err())
	var holds []*holdfast.Hold
	for _, msg := range all[:2] {
		require.NoError(t, msg.Context().Err())
		require.NoError(t, context.Cause(msg.Context()))
		require.Equal(t, []string{"b"}, msg.Context().Value(inbound{}))
		_, ok := fence.Token(msg.Context())
		require.False(t, ok, "it has the token of a hold that has ended")
		hold, err := rlock.New(c, "other "+t.Name()).TryLock(msg.Context())
		if len(holds) == 0 {
			require.NoError(t, err)
			holds = append(holds, hold)
			continue
		}
		require.ErrorIs(t, err, holdfast.ErrNotAcquired, "they have one owner")
	}
	require.Equal(t, "a", all[0].Context().Value(span{}))
	require.NoError(t, holds[0].Unlock(t.Context()))
	cancel(errPaper)
	<-all[0].Context().Done()
	require.ErrorIs(t, context.Cause(all[0].Context()), errPaper)
	require.Error(t, all[1].Context().Err())
}

// inbound is the key of what a message brings.
type inbound struct{}

var errPaper = errors.New("out of paper")

// TestNoFunction: a message whose lock nobody makes is not handled.
func TestNoFunction(t *testing.T) {
	_, err := holdfastwatermill.New(nil)(func(*message.Message) ([]*message.Message, error) {
		t.Error("the message was handled")
		return nil, nil
	})(message.NewMessage(watermill.NewUUID(), nil))
	require.ErrorIs(t, err, holdfast.ErrInvalid)
	require.ErrorContains(t, err, "locks is nil; pass New a function")
}
