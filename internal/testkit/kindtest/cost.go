package kindtest

import (
	"math"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// WaitersCost demands that each of n goroutines that wait has less than budget bytes, with its stack. crowd has them wait, and
// leave ends that. The control: goroutines that are parked where one that asks a server is, some KiB deep, have more.
func WaitersCost(t *testing.T, n int, budget uint64, crowd func() (leave func())) {
	t.Helper()
	least := uint64(math.MaxUint64)
	for range 5 { // what else the process does meanwhile can only add to it
		heap, stack := used()
		leave := crowd()
		h, s := used()
		leave()
		t.Logf("%d bytes on the heap and %d of stack", (h-heap)/uint64(n), (s-stack)/uint64(n))
		if least = min(least, (h+s-heap-stack)/uint64(n)); least < budget {
			break
		}
	}
	require.Less(t, least, budget)
	heap, stack := used()
	end := make(chan struct{})
	var started, group sync.WaitGroup
	for range n {
		started.Add(1)
		group.Go(func() { parkDeep(&started, end) })
	}
	started.Wait()
	h, s := used()
	close(end)
	group.Wait()
	require.Greater(t, (h+s-heap-stack)/uint64(n), budget, "control")
}

// used is what the process has in use when all garbage is gone, and stacks have shrunk, each by half at a time.
func used() (heap, stack uint64) {
	var m runtime.MemStats
	for before := uint64(math.MaxUint64); ; before = m.HeapInuse + m.StackInuse {
		runtime.GC()
		if runtime.ReadMemStats(&m); m.HeapInuse+m.StackInuse > before-before/100 {
			return m.HeapInuse, m.StackInuse
		}
	}
}

// parkDeep has a frame of 4 KiB.
func parkDeep(started *sync.WaitGroup, end chan struct{}) {
	var room [4096]byte
	started.Done()
	<-end
	runtime.KeepAlive(room[:])
}
