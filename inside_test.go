package holdfast

import (
	"context"
	"log/slog"
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/engine"
	"github.com/holdfast-go/holdfast/internal/notify"
)

// filled sets each field of a struct to something that is not zero.
func filled(t *testing.T, to reflect.Value) {
	for i := range to.NumField() {
		switch f := to.Field(i); f.Interface().(type) {
		case string:
			f.SetString("text")
		case bool:
			f.SetBool(true)
		case error:
			f.Set(reflect.ValueOf(ErrLost))
		case *slog.Logger:
			f.Set(reflect.ValueOf(slog.Default()))
		case *Observer:
			o := &Observer{}
			filled(t, reflect.ValueOf(o).Elem())
			f.Set(reflect.ValueOf(o))
		case []notify.DeadlockedWait:
			w := make([]notify.DeadlockedWait, 2)
			filled(t, reflect.ValueOf(&w[0]).Elem())
			filled(t, reflect.ValueOf(&w[1]).Elem())
			f.Set(reflect.ValueOf(w))
		default:
			switch {
			case f.CanInt():
				f.SetInt(int64(i + 1))
			case f.CanUint():
				f.SetUint(uint64(i + 1))
			case f.Kind() == reflect.Interface: // a nil error
				f.Set(reflect.ValueOf(ErrLost))
			case f.Kind() == reflect.Func:
				f.Set(reflect.MakeFunc(f.Type(), func([]reflect.Value) []reflect.Value {
					var out []reflect.Value
					for n := range f.Type().NumOut() {
						out = append(out, reflect.Zero(f.Type().Out(n)))
					}
					return out
				}))
			default:
				require.Fail(t, "a field of a type that this test does not know", "%v", to.Type().Field(i))
			}
		}
	}
}

// same demands of two structs the same fields with the same values, none of them zero. Functions are only there.
func same(t *testing.T, outside, inside reflect.Value) {
	require.Equal(t, outside.NumField(), inside.NumField())
	for i := range outside.NumField() {
		name := outside.Type().Field(i).Name
		in := inside.FieldByName(name)
		require.True(t, in.IsValid(), name)
		require.False(t, in.IsZero(), name)
		switch out := outside.Field(i); {
		case out.Kind() == reflect.Func:
		case out.Type() == reflect.TypeFor[*Observer]():
			same(t, out.Elem(), in.Elem())
		case out.Type() == reflect.TypeFor[[]DeadlockedWait]():
			require.Equal(t, out.Len(), in.Len())
			for n := range out.Len() {
				same(t, out.Index(n), in.Index(n))
			}
		case out.CanUint():
			require.Equal(t, out.Uint(), in.Uint(), name)
		default:
			require.Equal(t, out.Interface(), in.Interface(), name)
		}
	}
}

// TestInside: every field of the options and of the observer reaches the engine, and what is nil stays nil.
func TestInside(t *testing.T) {
	var o Options
	filled(t, reflect.ValueOf(&o).Elem())
	in := o.inside()
	same(t, reflect.ValueOf(o), reflect.ValueOf(*in))
	require.Nil(t, (*Options)(nil).inside())
	require.Equal(t, engine.Options{}, *(&Options{}).inside())
	require.Equal(t, reflect.ValueOf(notify.Observer{}).Interface(), reflect.ValueOf(*(&Observer{}).inside()).Interface())
}

// TestEventsInside: every event arrives whole, and so does what Waiting returns.
func TestEventsInside(t *testing.T) {
	type key struct{}
	var heard []any
	ctx := context.WithValue(t.Context(), key{}, true)
	in := (&Observer{
		Waiting: func(_ context.Context, e WaitEvent) context.Context {
			heard = append(heard, e)
			return ctx
		},
		Granted:    func(_ context.Context, e GrantEvent) { heard = append(heard, e) },
		Refused:    func(_ context.Context, e RefusalEvent) { heard = append(heard, e) },
		Ended:      func(_ context.Context, e EndEvent) { heard = append(heard, e) },
		Renewed:    func(e RenewalEvent) { heard = append(heard, e) },
		Sent:       func(e ScriptEvent) { heard = append(heard, e) },
		Subscribed: func(e SubscriptionEvent) { heard = append(heard, e) },
		Dropped:    func(n int) { heard = append(heard, n) },

		SelfBlocked: func(e SelfBlockEvent) { heard = append(heard, e) },
		Deadlocked:  func(e DeadlockEvent) { heard = append(heard, e) },
	}).inside()
	events := []any{
		&notify.WaitEvent{}, &notify.GrantEvent{}, &notify.RefusalEvent{}, &notify.EndEvent{}, &notify.RenewalEvent{},
		&notify.ScriptEvent{}, &notify.SubscriptionEvent{}, &notify.SelfBlockEvent{}, &notify.DeadlockEvent{},
	}
	for _, e := range events {
		filled(t, reflect.ValueOf(e).Elem())
	}
	require.Equal(t, ctx, in.Waiting(t.Context(), *events[0].(*notify.WaitEvent)))
	in.Granted(ctx, *events[1].(*notify.GrantEvent))
	in.Refused(ctx, *events[2].(*notify.RefusalEvent))
	in.Ended(ctx, *events[3].(*notify.EndEvent))
	in.Renewed(*events[4].(*notify.RenewalEvent))
	in.Sent(*events[5].(*notify.ScriptEvent))
	in.Subscribed(*events[6].(*notify.SubscriptionEvent))
	in.SelfBlocked(*events[7].(*notify.SelfBlockEvent))
	in.Deadlocked(*events[8].(*notify.DeadlockEvent))
	in.Dropped(7)
	require.Len(t, heard, len(events)+1)
	for i, e := range events {
		same(t, reflect.ValueOf(heard[i]), reflect.ValueOf(e).Elem())
	}
	require.Equal(t, 7, heard[len(events)])
}

// TestHow: both have the same ways to a grant, by name.
func TestHow(t *testing.T) {
	for how, name := range map[notify.How]string{
		notify.Asked: "asked", notify.HandedOn: "handed_on", notify.FromKept: "kept", notify.Reentered: "reentered", 0: "unknown",
	} {
		require.Equal(t, name, How(how).String())
	}
}
