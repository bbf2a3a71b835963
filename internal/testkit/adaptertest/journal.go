package adaptertest

// Journal is a logger of cron packages whose lines a test waits for.
type Journal struct {
	Skipped chan error // what Info said
	Failed  chan error // what Error said
}

// NewJournal makes an empty one.
func NewJournal() *Journal {
	return &Journal{Skipped: make(chan error, 100), Failed: make(chan error, 100)}
}

// Info notes why a run was skipped, and no line that does not say why.
func (j *Journal) Info(_ string, keysAndValues ...any) {
	for _, v := range keysAndValues {
		if err, ok := v.(error); ok {
			note(j.Skipped, err)
		}
	}
}

// Error notes an error.
func (j *Journal) Error(err error, _ string, _ ...any) { note(j.Failed, err) }

// note drops what nobody waits for any more.
func note(c chan<- error, err error) {
	select {
	case c <- err:
	default:
	}
}
