package notify

import (
	"fmt"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/holdfast-go/holdfast/internal/testkit/leak"
)

func TestMain(m *testing.M) { leak.Main(m) }

// TestRooms: what has more room is taken while the rest is dropped, and how many were dropped is told.
func TestRooms(t *testing.T) {
	var group sync.WaitGroup
	var got []string
	blocked, release := make(chan bool), make(chan bool)
	q := newQueue(group.Go, func(v string, dropped int) {
		if v == "first" {
			close(blocked)
			<-release
		}
		got = append(got, fmt.Sprint(v, dropped))
	})
	q.put("first", 1)
	<-blocked
	for range 3 {
		q.put("small", 1)
	}
	q.put("large", 2)
	q.put("large", 2)
	close(release)
	group.Wait()
	require.Equal(t, []string{"first0", "small3", "large0"}, got)
}

// TestBroken: a function that panics or ends its goroutine counts as one that was not told.
func TestBroken(t *testing.T) {
	var group sync.WaitGroup
	var got []string
	q := newQueue(group.Go, func(v string, dropped int) {
		switch v {
		case "panics":
			panic(v)
		case "exits":
			runtime.Goexit()
		}
		got = append(got, fmt.Sprint(v, dropped))
	})
	for _, v := range []string{"panics", "exits", "good", "good"} {
		q.put(v, 10)
	}
	group.Wait()
	require.Equal(t, []string{"good2", "good0"}, got)
}
