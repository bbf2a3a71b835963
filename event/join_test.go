package event_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/event"
	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

type mark struct{ of string }

// hearer notes what it hears, with what its own Waiting put into the context.
func hearer(name string, heard *[]string) *event.Observer {
	note := func(ctx context.Context, what string) {
		if ctx != nil && ctx.Value(mark{name}) != nil {
			what += " marked"
		}
		*heard = append(*heard, name+" "+what)
	}
	return &event.Observer{
		Waiting: func(ctx context.Context, _ event.Wait) context.Context {
			note(ctx, "waiting")
			return context.WithValue(ctx, mark{name}, true)
		},
		Granted:    func(ctx context.Context, _ event.Grant) { note(ctx, "granted") },
		Refused:    func(ctx context.Context, _ event.Refusal) { note(ctx, "refused") },
		Ended:      func(ctx context.Context, _ event.End) { note(ctx, "ended") },
		Renewed:    func(event.Renewal) { note(nil, "renewed") },
		Sent:       func(event.Script) { note(nil, "sent") },
		Subscribed: func(event.Subscription) { note(nil, "subscribed") },
		Dropped:    func(int) { note(nil, "dropped") },

		SelfBlocked: func(event.SelfBlock) { note(nil, "blocked") },
		Deadlocked:  func(event.Deadlock) { note(nil, "deadlocked") },
	}
}

// tell calls every function of an observer by reflection, so that one that Join forgets is missed. It counts panics.
func tell(o *event.Observer) (panics int) {
	ctx := context.Background()
	v := reflect.ValueOf(o).Elem()
	for i := range v.NumField() {
		f := v.Field(i)
		if f.IsNil() {
			continue
		}
		var args []reflect.Value
		if f.Type().NumIn() == 2 {
			args = append(args, reflect.ValueOf(ctx))
		}
		args = append(args, reflect.New(f.Type().In(f.Type().NumIn()-1)).Elem())
		func() {
			defer func() {
				if recover() != nil {
					panics++
				}
			}()
			if out := f.Call(args); len(out) == 1 {
				ctx = out[0].Interface().(context.Context)
			}
		}()
	}
	return panics
}

// both is what two observers hear of everything.
var both = []string{
	"a waiting", "b waiting", "a granted marked", "b granted marked", "a refused marked", "b refused marked",
	"a ended marked", "b ended marked", "a renewed", "b renewed", "a sent", "b sent", "a subscribed", "b subscribed",
	"a blocked", "b blocked", "a deadlocked", "b deadlocked", "a dropped", "b dropped",
}

func TestJoinedObserversHearAll(t *testing.T) {
	var alone, heard []string
	tell(hearer("a", &alone))
	require.Len(t, alone, reflect.TypeFor[event.Observer]().NumField(), "the test's observer hears everything")
	require.Zero(t, tell(event.Join(hearer("a", &heard), nil, &event.Observer{}, hearer("b", &heard))))
	require.Equal(t, both, heard)
}

// What nobody hears stays nil, which costs the client nothing.
func TestJoinedObserversOfNothing(t *testing.T) {
	require.Equal(t, &event.Observer{}, event.Join())
	require.Equal(t, &event.Observer{}, event.Join(nil, &event.Observer{}))
}

func TestJoinedObserversSurvivePanics(t *testing.T) {
	var heard []string
	wild := &event.Observer{}
	for _, f := range reflect.ValueOf(wild).Elem().Fields() {
		f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("of the user's") }))
	}
	panics := tell(event.Join(hearer("a", &heard), wild, hearer("b", &heard)))
	require.Equal(t, reflect.TypeFor[event.Observer]().NumField()-1, panics, "all go on but that of Waiting")
	require.Equal(t, both, heard)
	absent := &event.Observer{Waiting: func(context.Context, event.Wait) context.Context { return nil }}
	require.NotPanics(t, func() {
		event.Join(absent, hearer("c", &heard)).Waiting(context.Background(), event.Wait{})
	})
}

// TestHow: each way to a grant has a name of its own, for labels of metrics.
func TestHow(t *testing.T) {
	for how, name := range map[event.How]string{
		event.Asked: "asked", event.HandedOn: "handed_on", event.FromKept: "kept", event.Reentered: "reentered", 0: "unknown",
	} {
		require.Equal(t, name, how.String())
	}
}
