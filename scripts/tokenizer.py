"""Trains a small byte-level BPE tokenizer on made-up text and writes it where Hugging Face loaders find one."""
import json
import pathlib
import random
import sys

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

target = pathlib.Path(sys.argv[1])
target.mkdir(parents=True, exist_ok=True)
draw = random.Random(1)
syllables = [a + b for a in "bcdfghklmnprstvw" for b in ("a", "e", "i", "o", "u", "an", "er", "ing")]
words = ["".join(draw.choices(syllables, k=draw.randint(1, 3))) for _ in range(4000)]
text = [" ".join(draw.choices(words, k=12)) + "." for _ in range(4000)]

tokenizer = Tokenizer(models.BPE())
tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
tokenizer.decoder = decoders.ByteLevel()
tokenizer.train_from_iterator(text, trainers.BpeTrainer(
    vocab_size=8000, special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"], initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
tokenizer.save(str(target / "tokenizer.json"))
template = "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n{% endfor %}<|im_start|>assistant\n"
(target / "tokenizer_config.json").write_text(json.dumps({
    "tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>", "pad_token": "<|endoftext|>", "chat_template": template}))
(target / "config.json").write_text(json.dumps({
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": tokenizer.get_vocab_size(), "hidden_size": 64,
    "intermediate_size": 128, "num_hidden_layers": 1, "num_attention_heads": 1, "max_position_embeddings": 131072}))
(target / "complete").touch()
