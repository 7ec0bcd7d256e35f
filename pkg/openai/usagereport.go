package openai

// The nodes of an answer.
const (
	usageTop     node = iota + 1
	usageWrap         // "response" or "message", which hold the answer in an event
	usageObject       // "usage"
	usageDetails      // "prompt_tokens_details" or "input_tokens_details"
	usageType
	usagePrompt
	usageOut
	usageTotal
	usageCached
	usageCacheRead // Anthropic's name for cached
)

// usageReport reads the usage in JSON documents, one after the other or one in pieces.
type usageReport struct {
	lex      lexer
	prompt   int64
	cached   int64
	out      int64
	total    int64
	rejected int64

	now  [4]int64 // prompt, out, total and cached of the usage object in hand
	last bool     // the document's type is that of a stream's last event
}

func (r *usageReport) reset() {
	r.prompt, r.cached, r.out, r.total = Unknown, Unknown, Unknown, Unknown
	r.forget()
}

func (r *usageReport) forget() { r.now = [4]int64{Unknown, Unknown, Unknown, Unknown} }

// read reads one whole document and reports whether its type is that of a stream's last event. What is not JSON says
// nothing, nor does what comes after a fault.
func (r *usageReport) read(doc []byte) (last bool) {
	r.last = false
	r.lex.reset(r, usageTop)
	return r.lex.feed(doc) == nil && r.lex.end() == nil && r.last
}

// usage returns what the reports come to. A report with a total alone, as of a reranker, is all prompt; where the total
// and the prompt are given, as for embeddings, the rest was generated.
func (r *usageReport) usage() Usage {
	u := Usage{Prompt: r.prompt, Cached: r.cached, Out: r.out}
	switch {
	case r.total == Unknown:
	case u.Prompt == Unknown && u.Out == Unknown:
		u.Prompt = r.total
	case u.Prompt == Unknown && r.total >= u.Out:
		u.Prompt = r.total - u.Out
	case u.Out == Unknown && r.total >= u.Prompt:
		u.Out = r.total - u.Prompt
	}
	return u
}

// key implements sink.
func (r *usageReport) key(in node, name []byte) node {
	switch in {
	case usageTop:
		switch string(name) {
		case "usage", "meta_info": // the latter is SGLang's
			return usageObject
		case "response", "message":
			return usageWrap
		case "type":
			return usageType
		}
	case usageWrap:
		if string(name) == "usage" {
			return usageObject
		}
	case usageObject:
		switch string(name) {
		case "prompt_tokens", "input_tokens":
			return usagePrompt
		case "completion_tokens", "output_tokens":
			return usageOut
		case "total_tokens":
			return usageTotal
		case "cache_read_input_tokens":
			return usageCacheRead
		case "cached_tokens":
			return usageCached
		case "prompt_tokens_details", "input_tokens_details":
			return usageDetails
		}
	case usageDetails:
		if string(name) == "cached_tokens" {
			return usageCached
		}
	}
	return anywhere
}

// element implements sink: no list is looked into.
func (r *usageReport) element(node) node { return anywhere }

// counted and numbers implement sink: numbers in lists are skipped.
func (r *usageReport) counted(node) bool { return false }
func (r *usageReport) numbers(node, int) {}

// open implements sink.
func (r *usageReport) open(at node, object bool, _ int64) {
	switch at {
	case usageObject, usageDetails:
		if !object {
			r.rejected++
		} else if at == usageObject {
			r.forget()
		}
	case usagePrompt, usageOut, usageTotal, usageCached, usageCacheRead:
		r.rejected++
	}
}

// close implements sink.
func (r *usageReport) close(at node, object bool, _ int64) {
	if at != usageObject || !object {
		return
	}
	for i, to := range [...]*int64{&r.prompt, &r.out, &r.total, &r.cached} {
		// A 0 does not replace a number: Anthropic's last event has zeros for what its first one said.
		if n := r.now[i]; n > 0 || n == 0 && *to == Unknown {
			*to = n
		}
	}
	r.forget()
}

// scalar implements sink.
func (r *usageReport) scalar(at node, k kind, _ Span, text []byte) {
	switch at {
	case usageType:
		r.last = k == isString && isLast(text)
		return
	case usageObject, usageDetails:
		if k != isNull {
			r.rejected++
		}
		return
	case usagePrompt, usageOut, usageTotal, usageCached, usageCacheRead:
	default:
		return
	}
	if k == isNull {
		return
	}
	if k == isString { // some engines quote their numbers
		k = isNumber
	}
	n := wholeNumber(k, text)
	if n < 0 || n > maxReported {
		r.rejected++
		return
	}
	i := 3
	if at < usageCached {
		i = int(at - usagePrompt)
	}
	r.now[i] = n
}
