package holdfast_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast"
)

type mark struct{ of string }

// hearer notes what it hears, with what its own Waiting put into the context.
func hearer(name string, heard *[]string) *holdfast.Observer {
	note := func(ctx context.Context, what string) {
		if ctx != nil && ctx.Value(mark{name}) != nil {
			what += " marked"
		}
		*heard = append(*heard, name+" "+what)
	}
	return &holdfast.Observer{
		Waiting: func(ctx context.Context, _ holdfast.WaitEvent) context.Context {
			note(ctx, "waiting")
			return context.WithValue(ctx, mark{name}, true)
		},
		Granted:    func(ctx context.Context, _ holdfast.GrantEvent) { note(ctx, "granted") },
		Refused:    func(ctx context.Context, _ holdfast.RefusalEvent) { note(ctx, "refused") },
		Ended:      func(ctx context.Context, _ holdfast.EndEvent) { note(ctx, "ended") },
		Renewed:    func(holdfast.RenewalEvent) { note(nil, "renewed") },
		Sent:       func(holdfast.ScriptEvent) { note(nil, "sent") },
		Subscribed: func(holdfast.SubscriptionEvent) { note(nil, "subscribed") },
		Dropped:    func(int) { note(nil, "dropped") },

		SelfBlocked: func(holdfast.SelfBlockEvent) { note(nil, "blocked") },
		Deadlocked:  func(holdfast.DeadlockEvent) { note(nil, "deadlocked") },
	}
}

// tell calls every function of an observer by reflection, so that one that JoinObservers forgets is missed. It counts panics.
func tell(o *holdfast.Observer) (panics int) {
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
	require.Len(t, alone, reflect.TypeFor[holdfast.Observer]().NumField(), "the test's observer hears everything")
	require.Zero(t, tell(holdfast.JoinObservers(hearer("a", &heard), nil, &holdfast.Observer{}, hearer("b", &heard))))
	require.Equal(t, both, heard)
}

// What nobody hears stays nil, which costs the client nothing.
func TestJoinedObserversOfNothing(t *testing.T) {
	require.Equal(t, &holdfast.Observer{}, holdfast.JoinObservers())
	require.Equal(t, &holdfast.Observer{}, holdfast.JoinObservers(nil, &holdfast.Observer{}))
}

func TestJoinedObserversSurvivePanics(t *testing.T) {
	var heard []string
	wild := &holdfast.Observer{}
	for _, f := range reflect.ValueOf(wild).Elem().Fields() {
		f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value { panic("of the user's") }))
	}
	panics := tell(holdfast.JoinObservers(hearer("a", &heard), wild, hearer("b", &heard)))
	require.Equal(t, reflect.TypeFor[holdfast.Observer]().NumField()-1, panics, "all go on but that of Waiting")
	require.Equal(t, both, heard)
	absent := &holdfast.Observer{Waiting: func(context.Context, holdfast.WaitEvent) context.Context { return nil }}
	require.NotPanics(t, func() {
		holdfast.JoinObservers(absent, hearer("c", &heard)).Waiting(context.Background(), holdfast.WaitEvent{})
	})
}
