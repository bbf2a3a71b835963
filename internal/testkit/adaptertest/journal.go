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
			Tell(j.Skipped, err)
		}
	}
}

// Error notes an error.
func (j *Journal) Error(err error, _ string, _ ...any) { Tell(j.Failed, err) }

// Tell sends an error to a test, or drops it when nobody asks for so many.
func Tell(c chan<- error, err error) {
	select {
	case c <- err:
	default:
	}
}
