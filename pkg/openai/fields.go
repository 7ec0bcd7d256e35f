package openai

// The nodes of a request body. Those from firstSlot to lastSlot are members of the outermost object that make up the
// prompt; their order is the order of the prompt.
const (
	topNode node = iota + 1

	modelNode
	streamNode
	streamOptionsNode
	includeUsageNode
	maxTokensNode
	maxCompletionTokensNode
	maxOutputTokensNode
	samplingNode // vLLM's generate has the limits one level down
	samplingMaxTokensNode
	samplingNNode
	nNode
	saltNode

	systemNode
	instructionsNode
	toolsNode
	functionsNode
	toolChoiceNode
	functionCallNode
	templateNode
	templateArgumentsNode
	documentsNode
	reasoningNode
	reasoningEffortNode
	thinkingNode
	processorNode
	queryNode
	queriesNode
	text1Node
	data1Node
	tokenIDsNode
	promptTokenIDsNode
	inputIDsNode // SGLang's
	textNode     // SGLang's
	promptNode
	inputNode
	embedsNode
	featuresNode
	messagesNode
	itemsNode // "input" of the responses API
	text2Node
	data2Node
	documentListNode // "documents" where they are ranked or scored
	itemListNode

	systemPartNode
	listNode      // an element of a list of texts or token ids
	innerListNode // an element of a list in such a list
	messageNode
	itemNode
	itemTypeNode
	itemOutputNode
	roleNode
	contentNode
	partNode
	partTypeNode
	partTextNode
	partImageNode
	partImageEmbedsNode
	partAudioNode
	partInputAudioNode
	partVideoNode
	partContentNode
	nestedPartNode
	nestedTypeNode

	toolCallsNode
	messageFunctionCallNode
	reasoningContentNode
	messageReasoningNode
	refusalNode
	audioNode

	firstSlot = systemNode
	lastSlot  = itemListNode
	slotCount = int(lastSlot-firstSlot) + 1

	firstMedia = partImageNode
	lastMedia  = partVideoNode

	firstExtra = toolCallsNode
	extraCount = int(audioNode-firstExtra) + 1
)

// The members of the outermost object fit into a set; this does not compile if they no longer do.
const _ = uint(63 - lastSlot)

// nodes is a set of nodes below 64.
type nodes uint64

func setOf(list ...node) nodes {
	var s nodes
	for _, n := range list {
		s |= 1 << n
	}
	return s
}

func (s nodes) has(n node) bool { return n < 64 && s>>n&1 != 0 }

// topFields returns the members of the outermost object that are read for api.
func topFields(api API) nodes {
	s := setOf(modelNode, streamNode, maxTokensNode, maxCompletionTokensNode, maxOutputTokensNode)
	template := setOf(toolsNode, toolChoiceNode, templateNode, templateArgumentsNode, documentsNode, processorNode)
	common := setOf(streamOptionsNode, nNode, saltNode)
	switch api {
	case ChatCompletions:
		s |= common | template |
			setOf(messagesNode, functionsNode, functionCallNode, reasoningEffortNode, reasoningNode, thinkingNode)
	case Completions:
		s |= common | setOf(promptNode, embedsNode)
	case Responses:
		s |= common | template | setOf(instructionsNode, itemsNode, reasoningNode)
	case Messages, CountTokens:
		s |= common | template | setOf(systemNode, messagesNode, thinkingNode)
	case Embeddings, Classify, Pooling:
		s |= common | template | setOf(inputNode, messagesNode)
	case Rerank, Score:
		s |= common | setOf(queryNode, queriesNode, text1Node, data1Node, inputNode, text2Node, data2Node, documentListNode,
			itemListNode, processorNode, templateArgumentsNode)
	case Speech:
		s |= setOf(inputNode)
	case Images:
		s |= setOf(nNode, promptNode)
	case VertexChat, VertexRaw, VertexHTTP:
		s |= common | template | setOf(systemNode, messagesNode, promptNode, functionsNode, functionCallNode, reasoningEffortNode,
			reasoningNode, thinkingNode)
	case SGLangGenerate:
		s |= setOf(saltNode, samplingNode, inputIDsNode, textNode, embedsNode)
	case Generate:
		s |= setOf(streamOptionsNode, saltNode, samplingNode, tokenIDsNode, promptTokenIDsNode, featuresNode)
	}
	return s
}

// topField returns the node of a member of the outermost object.
func topField(api API, name []byte) node {
	switch string(name) {
	case "model":
		return modelNode
	case "stream":
		return streamNode
	case "stream_options":
		return streamOptionsNode
	case "max_tokens":
		return maxTokensNode
	case "max_completion_tokens":
		return maxCompletionTokensNode
	case "max_output_tokens":
		return maxOutputTokensNode
	case "sampling_params":
		return samplingNode
	case "n":
		return nNode
	case "cache_salt":
		return saltNode
	case "extra_key":
		if api == SGLangGenerate {
			return saltNode
		}
	case "input_ids":
		return inputIDsNode
	case "text":
		return textNode
	case "input_embeds":
		if api == SGLangGenerate {
			return embedsNode
		}
	case "system":
		return systemNode
	case "instructions":
		return instructionsNode
	case "tools":
		return toolsNode
	case "functions":
		return functionsNode
	case "tool_choice":
		return toolChoiceNode
	case "function_call":
		return functionCallNode
	case "chat_template":
		return templateNode
	case "chat_template_kwargs":
		return templateArgumentsNode
	case "documents":
		if api == Rerank || api == Score {
			return documentListNode
		}
		return documentsNode
	case "reasoning":
		return reasoningNode
	case "reasoning_effort":
		return reasoningEffortNode
	case "thinking":
		return thinkingNode
	case "mm_processor_kwargs":
		return processorNode
	case "query":
		return queryNode
	case "queries":
		return queriesNode
	case "text_1":
		return text1Node
	case "data_1":
		return data1Node
	case "text_2":
		return text2Node
	case "data_2":
		return data2Node
	case "items":
		return itemListNode
	case "token_ids":
		return tokenIDsNode
	case "prompt_token_ids":
		return promptTokenIDsNode
	case "prompt":
		return promptNode
	case "prompt_embeds":
		return embedsNode
	case "features":
		return featuresNode
	case "input":
		if api == Responses {
			return itemsNode
		}
		return inputNode
	case "messages":
		return messagesNode
	}
	return anywhere
}

// messageField returns the node of a member of a message, or of an item of the responses API.
func messageField(in node, name []byte) node {
	switch string(name) {
	case "role":
		return roleNode
	case "content":
		return contentNode
	case "tool_calls":
		return toolCallsNode
	case "function_call":
		return messageFunctionCallNode
	case "reasoning_content":
		return reasoningContentNode
	case "reasoning":
		return messageReasoningNode
	case "refusal":
		return refusalNode
	case "audio":
		return audioNode
	case "type":
		if in == itemNode {
			return itemTypeNode
		}
	case "output":
		if in == itemNode {
			return itemOutputNode
		}
	}
	return anywhere
}

// partField returns the node of a member of a content part.
func partField(name []byte) node {
	switch string(name) {
	case "type":
		return partTypeNode
	case "text":
		return partTextNode
	case "content":
		return partContentNode
	case "image_url":
		return partImageNode
	case "image_embeds":
		return partImageEmbedsNode
	case "audio_url":
		return partAudioNode
	case "input_audio":
		return partInputAudioNode
	case "video_url":
		return partVideoNode
	}
	return anywhere
}

// key implements sink.
func (s *Scanner) key(in node, name []byte) node {
	switch in {
	case topNode:
		if n := topField(s.api, name); s.reads.has(n) {
			return n
		}
	case messageNode, itemNode:
		return messageField(in, name)
	case partNode, systemPartNode:
		return partField(name)
	case nestedPartNode:
		if string(name) == "type" {
			return nestedTypeNode
		}
	case streamOptionsNode:
		if string(name) == "include_usage" {
			return includeUsageNode
		}
	case samplingNode:
		switch string(name) {
		case "max_tokens":
			return samplingMaxTokensNode
		case "max_new_tokens":
			if s.api == SGLangGenerate {
				return samplingMaxTokensNode
			}
		case "n":
			return samplingNNode
		}
	}
	return anywhere
}

// element implements sink.
func (s *Scanner) element(in node) node {
	switch in {
	case systemNode, instructionsNode:
		return systemPartNode
	case messagesNode:
		return messageNode
	case itemsNode:
		return itemNode
	case contentNode:
		return partNode
	case partContentNode, itemOutputNode:
		return nestedPartNode
	case listNode:
		return innerListNode
	}
	if isList(in) {
		return listNode
	}
	return anywhere
}

// isList reports whether a slot holds a text, a list of texts, or token ids.
func isList(n node) bool {
	switch n {
	case queryNode, queriesNode, text1Node, data1Node, tokenIDsNode, promptTokenIDsNode, inputIDsNode, textNode, promptNode,
		inputNode, text2Node, data2Node, documentListNode, itemListNode:
		return true
	}
	return false
}

// partClass is what the type of a content part says about it.
type partClass uint8

const (
	noClass partClass = iota
	textClass
	mediaClass
	otherClass
)

// classOf returns the class of a part by its "type", in the words of OpenAI's chat and responses API, of Anthropic's and
// of vLLM.
func classOf(typ []byte) partClass {
	switch string(typ) {
	case "text", "input_text", "output_text":
		return textClass
	case "image_url", "image", "input_image", "image_embeds", "image_pil", "audio_url", "input_audio", "audio", "audio_embeds",
		"video_url", "video", "input_video", "file", "input_file", "document":
		return mediaClass
	}
	return otherClass
}
