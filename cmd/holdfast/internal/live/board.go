package live

import (
	"sync"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
	"github.com/holdfast-go/holdfast/internal/grantrate"
)

// Key says which lock is meant: of several servers, each may have one of that name.
type Key struct {
	Server int // in the order in which they were given
	Name   string
}

// Row is what was seen of a lock last. It does not change.
type Row struct {
	Key
	Lock inspect.Lock
	Seen time.Time // by this machine's clock
	Rate grantrate.Rate
}

// Waiting is how many wait, as far as that is known.
func (r *Row) Waiting() int {
	n, _ := r.Lock.Waiting()
	return max(n, 0)
}

const (
	// recent is for how long a lock that nobody has stays in the picture, from its last grant on: one
	// that changes hands fast is free most of the times it is looked at.
	recent = 10 * time.Second
	// mostRows bounds the memory of a picture. A row takes about a kilobyte.
	mostRows = 50_000
)

// board is all rows.
type board struct {
	mu      sync.Mutex // guards the rest
	rows    map[Key]*Row
	tracks  map[Key]grantrate.Track
	version int // grows with each change
	left    int // names that there was no room for, in this pass
}

func newBoard() *board {
	return &board{rows: make(map[Key]*Row), tracks: make(map[Key]grantrate.Track)}
}

// put notes what was seen.
func (b *board) put(server int, l inspect.Lock) {
	b.mu.Lock()
	defer b.mu.Unlock()
	key := Key{server, l.Name}
	b.version++
	if !worth(&l) {
		delete(b.rows, key)
		delete(b.tracks, key)
		return
	}
	if b.rows[key] == nil && len(b.rows) >= mostRows {
		b.left++
		return
	}
	t := b.tracks[key].See(l.At, l.Token)
	b.tracks[key] = t
	b.rows[key] = &Row{key, l, time.Now(), t.Rate()}
}

// worth reports whether there is anything to see.
func worth(l *inspect.Lock) bool {
	if l.Held() || l.Waiters > 0 || l.Listening > 0 || len(l.Queue) > 0 || len(l.Problems) > 0 {
		return true
	}
	granted := time.UnixMicro(int64(l.Token)) //nolint:gosec // tokens are below 2^53
	return l.Kind != inspect.Nothing && l.At.Sub(granted) < recent
}

// sweep forgets what a pass over all of a server's names has not seen.
func (b *board) sweep(server int, begin time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for key, row := range b.rows {
		if key.Server == server && row.Seen.Before(begin) {
			delete(b.rows, key)
			delete(b.tracks, key)
		}
	}
	b.version++
}

// anew begins to count what there is no room for.
func (b *board) anew() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.left = 0
}

// all are the rows there are, in no order.
func (b *board) all() (rows []*Row, version int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	rows = make([]*Row, 0, len(b.rows))
	for _, row := range b.rows {
		rows = append(rows, row)
	}
	return rows, b.version
}
