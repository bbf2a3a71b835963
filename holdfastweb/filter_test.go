package holdfastweb

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/inspect"
)

// TestFilterTakesTooLong: the page says so, and a live one does not try it again and again. The control has more time.
func TestFilterTakesTooLong(t *testing.T) {
	s := &snapshot{index: make(map[key]int), taken: time.Now()}
	for n := range 200 {
		s.add(newEntry(0, inspect.Lock{Name: fmt.Sprint("name ", n)}, time.Now(), nil))
	}
	h := &Handler{opts: Options{Rows: 10}, poller: newPoller(nil, nil, nil, &Options{})}
	v := view{viewKey: viewKey{match: "*[0-9]", sort: defaultSort}, page: 1}
	rows, hd := h.look(s, v, time.Now(), false)
	require.Len(t, rows, 10)
	require.False(t, hd.TooLong)

	defer func(d time.Duration) { filterWithin = d }(filterWithin)
	filterWithin = -1
	s.views = nil
	live := &listStream{Handler: h, view: v}
	u, changed := live.next(s, time.Now())
	require.True(t, changed)
	require.Contains(t, *u.Head, "takes too long")
	s.views = nil
	_, changed = live.next(s, time.Now())
	require.False(t, changed)
	require.Nil(t, s.views, "it was not tried again")
}
