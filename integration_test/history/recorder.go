package history

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"sync"
)

// Recorder collects operations as they are called and return. All methods are safe for concurrent
// use.
type Recorder struct {
	now func() int64

	mu  sync.Mutex // guards the rest, and makes the order of lines that of the moments in them
	ops []Op
	out io.Writer
	err error
	end bool // crashed: nothing counts any more
}

// NewRecorder makes a recorder. now is its clock, in nanoseconds; histories that are checked
// together have one clock.
func NewRecorder(now func() int64) *Recorder { return &Recorder{now: now} }

// Stream has each call and each return also written to out at once, as a line that [Read]
// understands: what a process has written survives it.
func (r *Recorder) Stream(out io.Writer) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out = out
}

// Call is an operation under way.
type Call struct {
	r  *Recorder
	id int
}

// line is one moment of an operation in a stream.
type line struct {
	ID  int  `json:"id"`
	End bool `json:"end,omitempty"`
	Op  Op   `json:"op"`
}

// Begin notes that an operation is being called now. The moment is taken before Begin returns, so
// before the call.
func (r *Recorder) Begin(op Op) Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end {
		return Call{r, -1}
	}
	op.Call, op.Return, op.Result = r.now(), Forever, Unknown
	r.ops = append(r.ops, op)
	c := Call{r, len(r.ops) - 1}
	r.writeLocked(line{ID: c.id, Op: op})
	return c
}

// End notes that the operation has returned, and with what.
func (c Call) End(change func(*Op)) {
	r := c.r
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.end {
		return
	}
	op := &r.ops[c.id]
	op.Return = r.now()
	change(op)
	r.writeLocked(line{ID: c.id, End: true, Op: *op})
}

// Note records something that happened at this moment.
func (r *Recorder) Note(op Op) {
	r.Begin(op).End(func(o *Op) { o.Result, o.Error = op.Result, op.Error })
}

// Crash notes that the client has stopped for good. What it goes on to do, in a process that was
// only cut off from the world to play dead, is not recorded.
func (r *Recorder) Crash(client int) {
	r.Note(Op{Kind: Crash, Client: client, Result: OK})
	r.mu.Lock()
	defer r.mu.Unlock()
	r.end = true
}

func (r *Recorder) writeLocked(l line) {
	if r.out == nil || r.err != nil {
		return
	}
	text, err := json.Marshal(l)
	if err == nil {
		_, err = r.out.Write(append(text, '\n'))
	}
	r.err = err
}

// Ops are the operations so far; those that have not returned are open.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Op(nil), r.ops...)
}

// Err is the first failure to write the stream.
func (r *Recorder) Err() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Read reads what one recorder streamed. A last line that was cut off when its process was killed
// is left out.
func Read(in io.Reader) ([]Op, error) {
	var ops []Op
	reader := bufio.NewReader(in)
	for {
		text, err := reader.ReadBytes('\n')
		if err == io.EOF {
			return ops, nil
		}
		if err != nil {
			return ops, err
		}
		var l line
		if err := json.Unmarshal(bytes.TrimSpace(text), &l); err != nil {
			return ops, fmt.Errorf("line %q: %w", text, err)
		}
		switch {
		case !l.End && l.ID == len(ops):
			ops = append(ops, l.Op)
		case l.End && l.ID < len(ops):
			ops[l.ID] = l.Op
		default:
			return ops, fmt.Errorf("line %q is out of order", text)
		}
	}
}
