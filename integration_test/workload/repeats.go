package workload

import (
	"slices"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/holdfast-go/holdfast/lua"
)

// Repeats notes, by its Hook, which count-downs of latches were sent more than once. What such a call
// says is what was left when the repeat came, which the library does not tell apart. Whether there was a
// fault would be no answer: a connection that broke is noticed after it. The zero value is ready, and may be shared
// by clients.
type Repeats struct {
	mu    sync.Mutex             // guards the rest
	calls map[string][]*sentCall // by the latch, in the order of their first sending
	ids   map[string]*sentCall
}

// sentCall is a call that was sent.
type sentCall struct {
	first int // the how manyth it was of all that were sent for the first time
	times int // how often it was sent
}

// Hook is for go-redis.
func (r *Repeats) Hook() redis.Hook { return watch(r) }

// mark is a moment, for since.
func (r *Repeats) mark() int {
	if r == nil {
		return 0
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

// since reports whether a call for a latch that was first sent since a moment was sent again.
func (r *Repeats) since(name string, mark int) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range slices.Backward(r.calls[name]) {
		if c.first < mark {
			break
		}
		if c.times > 1 {
			return true
		}
	}
	return false
}

// sends notes that a command is sent.
func (r *Repeats) sends(cmd redis.Cmder) {
	args := cmd.Args()
	if !runs(args, lua.LatchCount) || len(args) < firstKey+2 {
		return
	}
	name, _ := args[firstKey].(string)
	id, _ := args[firstKey+1].(string)
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.ids[id]
	if c == nil {
		if r.ids == nil {
			r.ids, r.calls = make(map[string]*sentCall), make(map[string][]*sentCall)
		}
		c = &sentCall{first: len(r.ids)}
		r.ids[id] = c
		r.calls[name] = append(r.calls[name], c)
	}
	c.times++
}

// answered notes what became of it: where the server does not know the script, it was not run.
func (r *Repeats) answered(cmd redis.Cmder, err error) {
	args := cmd.Args()
	if !runs(args, lua.LatchCount) || len(args) < firstKey+2 || !redis.HasErrorPrefix(err, "NOSCRIPT") {
		return
	}
	id, _ := args[firstKey+1].(string)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ids[id].times--
}
