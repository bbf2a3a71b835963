package holdfast

import "time"

// State is a lock as the server sees it at one moment. It is old news when it arrives: do not decide by it whether a lock
// is held, but ask the [Hold].
type State struct {
	Owner     string        // "<uuid>:<token>", empty: free
	Count     int           // hold count of Owner; where replies are lost, it may be that of before until the next operation
	Remaining time.Duration // lease left; negative if the key has none, which only something foreign can cause
	Token     uint64        // last fencing token granted, 0: none known
	Waiters   int           // in the visible queue; -1 where the kind keeps none
}
