//go:build linux

package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/integration_test/history"
)

// stall is what a process notes of itself when it did not run for a while: on a busy machine, what it was about to
// do is done later by that.
const stall history.Kind = "stall"

// noteStalls notes the stalls of this process until stop is closed.
func noteStalls(rec *history.Recorder, client int, stop <-chan struct{}) {
	const often, long = 50 * time.Millisecond, 250 * time.Millisecond
	tick := time.NewTicker(often)
	defer tick.Stop()
	for last := now(); ; {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		at := now()
		if at-last > int64(long) {
			rec.Begin(history.Op{Client: client, Kind: stall}).End(func(o *history.Op) { o.Call, o.Result = last, history.OK })
		}
		last = at
	}
}

// ownPauses are the times in which the process did not run, by what was done to it and by what it says itself.
func (p *process) ownPauses() []history.Window {
	all := slices.Clone(p.pauses)
	for _, o := range p.ops {
		if o.Kind == stall && o.Return != history.Forever {
			all = append(all, history.Window{From: o.Call, To: o.Return})
		}
	}
	return history.Union(all)
}

// story is its history without that.
func (p *process) story() []history.Op {
	return slices.DeleteFunc(slices.Clone(p.ops), func(o history.Op) bool { return o.Kind == stall })
}

// since is the moment from which on the process has run for so long, until another.
func (p *process) since(ran time.Duration, until int64) int64 {
	for _, w := range slices.Backward(p.pauses) {
		if w.To >= until {
			until = min(until, w.From)
			continue
		}
		if until-w.To > int64(ran) {
			break
		}
		ran -= time.Duration(until - w.To)
		until = w.From
	}
	return until - int64(ran)
}

func TestPausesOfProcess(t *testing.T) {
	p := &process{pauses: []history.Window{{From: 10, To: 20}, {From: 30, To: 40}}, ops: []history.Op{
		{Kind: stall, Call: 35, Return: 50}, {Kind: stall, Call: 60, Return: history.Forever}, {Kind: history.Lock}}}
	require.Equal(t, []history.Window{{From: 10, To: 20}, {From: 30, To: 50}}, p.ownPauses())
	require.Equal(t, []history.Op{{Kind: history.Lock}}, p.story())
	require.EqualValues(t, 45, p.since(5, 50))
	require.EqualValues(t, 28, p.since(12, 50))
	require.EqualValues(t, 7, p.since(23, 50))
	require.EqualValues(t, 29, p.since(1, 35), "it was paused then")
}
