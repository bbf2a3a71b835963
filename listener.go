package holdfast

import "github.com/holdfast-go/holdfast/pubsub"

// ears listen at all masters for a release.
type ears struct {
	wake chan struct{}
	subs []*pubsub.Subscription
}

// listen is [backend.listen].
func (q *quorum) listen() listening {
	e := &ears{wake: make(chan struct{}, 1)}
	for _, v := range q.voters {
		e.subs = append(e.subs, v.client.hub.Listen(q.voter.Channel(), e))
	}
	return e
}

// Message is [pubsub.Listener].
func (e *ears) Message(string) { e.Look(true) }

// Look is [pubsub.Listener].
func (e *ears) Look(bool) {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

// Wake is [listening].
func (e *ears) Wake() <-chan struct{} { return e.wake }

// Err is [listening]: one ear is enough.
func (e *ears) Err() (err error) {
	for _, s := range e.subs {
		if err = s.Err(); err == nil {
			return nil
		}
	}
	return err
}

// Close is [listening].
func (e *ears) Close() {
	for _, s := range e.subs {
		s.Close()
	}
}
